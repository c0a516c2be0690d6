import { type Address, type DualStack, Prefix, valuesOf } from "../inet/mod.ts";
import {
  linkSet,
  type Request,
  routeDelete,
  type RouteSocket,
} from "../netlink/mod.ts";
import { formatHuskAlias, type LinkIdentity } from "./alias.ts";
import { type Husk, isGone } from "./husk_reaper.ts";
import type { FoundLink } from "./link_finder.ts";

/** What `cutOff()` needs beside the link. */
export interface CutOff {
  /** The pod's addresses by the host's routes. */
  readonly addresses: DualStack<Address>;
  readonly tableId: number;
  /** The link group of husks. */
  readonly group: number;
}

/**
 * Turns a pod's host veth into a husk, in one send: its routes go, and alias
 * and group say what it is from then on. Returns undefined when the link went
 * away meanwhile.
 *
 * @throws {NetlinkError} when the kernel refuses
 */
export async function cutOff(
  host: RouteSocket,
  found: FoundLink,
  { addresses, tableId, group }: CutOff,
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
  const mark = markRequest(index, { identity, group });
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
  return { ...identity, index, group: mark === undefined ? 0 : group };
}

/** Undefined for an alias of upstream's that leaves no room for our mark: that link is deleted on its own. */
function markRequest(
  index: number,
  mark: { readonly identity: LinkIdentity; readonly group: number },
): Request | undefined {
  try {
    const alias = formatHuskAlias(mark.identity);
    return linkSet({ index }, { alias, group: mark.group });
  } catch (error) {
    if (error instanceof TypeError) return undefined;
    throw error;
  }
}

/** The husk that a link is. */
export function huskOf(found: FoundLink): Husk {
  const { link: { index, group }, identity } = found;
  return { ...identity, index, group };
}
