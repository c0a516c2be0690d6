import { type Address, type DualStack, valuesOf } from "../../inet/mod.ts";
import type { Netns } from "../../linux/mod.ts";
import {
  type AddressEntry,
  AT_MOST_IN_POD,
  RouteSocket,
} from "../../netlink/mod.ts";
import {
  isHostNetns,
  namespacePaths,
  tryOpenPodNetns,
} from "../netns/pod_netns.ts";

/** Target of a search. */
export interface Sought {
  readonly ifname: string;
  readonly addresses: DualStack<Address>;
}

/**
 * Finds the network namespaces that have these interfaces with these
 * addresses, by one look at each namespace of the host but the host's own.
 * What several namespaces have is left out, as is what has no addresses.
 */
export async function findByAddress<T extends Sought>(
  sought: readonly T[],
  { hostNetns, among = namespacePaths() }: {
    readonly hostNetns: Netns | undefined;
    /** Default: all namespaces that have a path. */
    readonly among?: readonly string[];
  },
): Promise<ReadonlyMap<T, string>> {
  const paths = new Map<T, string[]>();
  const wanted = new Set(sought.flatMap(keysOf));
  for (const path of among) {
    const present = await keysAt(path, { hostNetns, wanted });
    for (const pod of sought) {
      const keys = keysOf(pod);
      const isThere = keys.length > 0 && keys.every((key) => present.has(key));
      if (isThere) paths.getOrInsert(pod, []).push(path);
    }
  }
  const found = new Map<T, string>();
  for (const [pod, [path, ...others]] of paths) {
    if (path !== undefined && others.length === 0) found.set(pod, path);
  }
  return found;
}

/** `<interface> <address>` of each address. */
function keysOf({ ifname, addresses }: Sought): string[] {
  return valuesOf(addresses).map((address) => `${ifname} ${address}`);
}

/** Those of a namespace that are wanted: a pod may have any number. */
async function keysAt(
  path: string,
  { hostNetns, wanted }: {
    readonly hostNetns: Netns | undefined;
    readonly wanted: ReadonlySet<string>;
  },
): Promise<Set<string>> {
  using netns = tryOpenPodNetns(path);
  if (netns === undefined || isHostNetns(netns, hostNetns)) return new Set();
  using socket = RouteSocket.open({ netns });
  const links = await socket.listLinks({ atMost: AT_MOST_IN_POD });
  const names = new Map(links.map(({ index, name }) => [index, name]));
  const keyOf = ({ index, prefix }: AddressEntry) =>
    `${names.get(index)} ${prefix.address}`;
  const entries = await socket.listAddresses({
    keep: (entry) => wanted.has(keyOf(entry)),
  });
  return new Set(entries.map(keyOf));
}
