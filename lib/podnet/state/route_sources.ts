import { type Address, Prefix, valuesOf } from "../../inet/mod.ts";
import {
  type Request,
  routeReplace,
  type RouteSocket,
} from "../../netlink/mod.ts";
import { hostRoute, type PodPlanInput, type RouteStep } from "../plan/plan.ts";
import { routeSpec } from "../plan/requests.ts";
import type { PodLink } from "./survey.ts";

/**
 * Replaces the host routes of pods whose source is not what a new pod's would
 * be: the node's address, if the node really has it. Returns how many there were.
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
  const local = await host.listAddresses();
  const usable = (address: Address | undefined) =>
    address !== undefined &&
    local.some(({ prefix }) => prefix.address.equals(address));
  const routes = await host.listRoutes({ table, protocol });
  const requests: Request[] = [];
  for (const { addresses, index } of pods) {
    for (const address of valuesOf(addresses)) {
      const planned = hostRoute(address, options);
      const { source, ...sourceless } = planned;
      const wanted: RouteStep = usable(source) ? planned : sourceless;
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
