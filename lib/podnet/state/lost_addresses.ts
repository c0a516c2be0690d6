import type { Address, DualStack } from "../../inet/mod.ts";
import {
  type AddressEntry,
  type Neighbour,
  netnsIdGet,
  RouteSocket,
} from "../../netlink/mod.ts";
import { namespacePaths, tryOpenPodNetns } from "../netns/pod_netns.ts";
import type { PodLink } from "./survey.ts";

/**
 * Finds out the addresses of pods whose routes on the host are gone: from the
 * interfaces inside the pods, and where a pod's network namespace has no path,
 * from what the host knows of its neighbours. The result leaves out pods for
 * which neither has an address.
 *
 * Slow: each network namespace of the host is opened once. What a pod says of
 * itself is less sure than a route of the host, so this is not for pods that
 * have theirs.
 *
 * @throws {NetlinkError} when the host's kernel refuses
 */
export async function findLostAddresses(
  host: RouteSocket,
  pods: readonly PodLink[],
): Promise<Map<number, DualStack<Address>>> {
  const found = new Map<number, DualStack<Address>>();
  if (pods.length === 0) return found;
  for (const path of namespacePaths()) {
    for (const [index, addresses] of await readInside(host, { path, pods })) {
      found.set(index, addresses);
    }
  }
  const rest = pods.filter(({ index }) => !found.has(index));
  if (rest.length === 0) return found;
  const neighbours = await host.listNeighbours();
  for (const { index } of rest) {
    const addresses = addressesOfNeighbours(neighbours, index);
    if (addresses !== undefined) found.set(index, addresses);
  }
  return found;
}

/** The addresses of those pods that are in this network namespace. */
async function readInside(
  host: RouteSocket,
  { path, pods }: { readonly path: string; readonly pods: readonly PodLink[] },
): Promise<[number, DualStack<Address>][]> {
  using netns = tryOpenPodNetns(path);
  if (netns === undefined) return [];
  let id: number | undefined;
  await host.execute([netnsIdGet(netns, (known) => id = known)]);
  const inside = pods.filter(({ peerNetnsId }) => peerNetnsId === id);
  if (id === undefined || inside.length === 0) return [];
  using socket = RouteSocket.open({ netns });
  const entries = await socket.listAddresses();
  return inside.flatMap(({ index, peerIndex }) => {
    const addresses = addressesOfPod(entries, peerIndex);
    return addresses === undefined ? [] : [[index, addresses]];
  });
}

/**
 * Ours are host addresses of global scope, and older than what the pod may
 * have added. The kernel lists IPv4 in the order of their coming
 * (__inet_insert_ifa() of net/ipv4), IPv6 the other way round
 * (ipv6_link_dev_addr() of net/ipv6).
 */
function addressesOfPod(
  entries: readonly AddressEntry[],
  peerIndex: number | undefined,
): DualStack<Address> | undefined {
  const own = entries.filter(({ index, scope, prefix }) =>
    index === peerIndex && scope === "global" &&
    prefix.length === prefix.address.bits
  ).map(({ prefix }) => prefix.address);
  const ipv4 = own.find(({ family }) => family === "ipv4");
  const ipv6 = own.findLast(({ family }) => family === "ipv6");
  return collect([ipv4, ipv6].filter((address) => address !== undefined));
}

/**
 * ADD notes the pod's addresses among the neighbours. More than one of a family
 * prove nothing. Those without ARP are multicast groups.
 */
function addressesOfNeighbours(
  neighbours: readonly Neighbour[],
  index: number,
): DualStack<Address> | undefined {
  const own = neighbours.filter((neighbour) =>
    neighbour.index === index && neighbour.mac !== undefined &&
    neighbour.state !== "noarp" && !neighbour.address.isLinkLocal
  ).map(({ address }) => address);
  const isAmbiguous = own.some((address, i) =>
    own.some((other, j) => i !== j && other.family === address.family)
  );
  return isAmbiguous ? undefined : collect(own);
}

function collect(
  addresses: readonly Address[],
): DualStack<Address> | undefined {
  if (addresses.length === 0) return undefined;
  return Object.fromEntries(
    addresses.map((address) => [address.family, address]),
  );
}
