import { Prefix, valuesOf } from "../inet/mod.ts";
import {
  type Request,
  routeReplace,
  type RouteSocket,
} from "../netlink/mod.ts";
import { hostRoute, type PodPlanInput } from "./plan.ts";
import { routeSpec } from "./requests.ts";
import type { PodLink } from "./survey.ts";

/**
 * Replaces the host routes of pods whose source is not what a new pod's would
 * be. Returns how many there were.
 *
 * @throws {NetlinkError} of the first that the kernel refused; the others are done
 */
export async function refreshSources(
  host: RouteSocket,
  pods: readonly PodLink[],
  options: Pick<
    PodPlanInput,
    "tableId" | "protocolId" | "nodeAddresses" | "gatewayMode"
  >,
): Promise<number> {
  const { tableId: table, protocolId: protocol } = options;
  const routes = await host.listRoutes({ table, protocol });
  const requests: Request[] = [];
  for (const { addresses, index } of pods) {
    for (const address of valuesOf(addresses)) {
      const wanted = hostRoute(address, options);
      const destination = Prefix.host(address);
      const present = routes.find((route) =>
        route.index === index && route.destination?.equals(destination)
      );
      if (present === undefined || sameText(present.source, wanted.source)) {
        continue;
      }
      requests.push(routeReplace(routeSpec(wanted, index)));
    }
  }
  await host.execute(requests);
  return requests.length;
}

function sameText(a: unknown, b: unknown): boolean {
  return a?.toString() === b?.toString();
}
