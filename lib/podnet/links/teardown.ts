import {
  type Address,
  type DualStack,
  Prefix,
  valuesOf,
} from "../../inet/mod.ts";
import {
  linkSet,
  type Request,
  routeDelete,
  type RouteSocket,
} from "../../netlink/mod.ts";
import { LinkNameError } from "../base/errors.ts";
import { formatHuskAlias, type LinkIdentity } from "../base/alias.ts";
import { type Husk, isGone } from "./husk_reaper.ts";
import type { FoundLink } from "./link_finder.ts";

/** Options of `cutOff()`. */
export interface CutOff {
  /** The pod's addresses by the host's routes. */
  readonly addresses: DualStack<Address>;
  readonly tableId: number;
}

/**
 * Turns a pod's host veth into a husk, in one send: its routes go, and
 * its alias says what it is from then on. Returns undefined when the link went
 * away in the meantime.
 *
 * @throws {NetlinkError} when the kernel refuses
 */
export async function cutOff(
  host: RouteSocket,
  found: FoundLink,
  { addresses, tableId }: CutOff,
): Promise<Husk | undefined> {
  const { link: { index }, identity } = found;
  const routes = valuesOf(addresses).map((address) =>
    routeDelete({
      family: address.family,
      destination: Prefix.host(address),
      index,
      table: tableId,
    })
  );
  const mark = markRequest(index, identity);
  const errors = await host.tryExecute([
    ...routes,
    ...(mark === undefined ? [] : [mark]),
  ]);
  const refused = errors.find((error) =>
    error !== undefined && error.code !== "ESRCH" && !isGone(error)
  );
  if (refused !== undefined) throw refused;
  if (errors.some((error) => error !== undefined && isGone(error))) {
    return undefined;
  }
  return { ...identity, index };
}

/** Undefined for an alias of upstream's that leaves no room for our mark. */
function markRequest(
  index: number,
  identity: LinkIdentity,
): Request | undefined {
  try {
    return linkSet({ index }, { alias: formatHuskAlias(identity) });
  } catch (error) {
    if (error instanceof LinkNameError) return undefined;
    throw error;
  }
}

export function huskOf(found: FoundLink): Husk {
  const { link: { index }, identity } = found;
  return { ...identity, index };
}
