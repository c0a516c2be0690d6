import { type Address, type DualStack, valuesOf } from "../../inet/mod.ts";
import type { Netns } from "../../linux/mod.ts";
import { type Link, RouteSocket } from "../../netlink/mod.ts";
import type { NetnsIndex } from "./netns_index.ts";
import { tryOpenPodNetns } from "./pod_netns.ts";

/** Facts about a pod from outside its network namespace. */
export interface PodOutside {
  /** The host's end. */
  readonly link: Link;
  /** Name of the pod's end. */
  readonly ifname: string;
  /** The addresses that the pod's end has. */
  readonly addresses: DualStack<Address>;
}

/**
 * Finds the network namespace that a pod's end is in, starting with the
 * likely path. Each candidate has to prove itself: the path may have gone to
 * another namespace in the meantime, and so may the number.
 */
export async function findPodNetns(
  pod: PodOutside,
  options: {
    readonly likelyPath?: string | undefined;
    readonly index: NetnsIndex;
  },
): Promise<Netns | undefined> {
  const { likelyPath, index } = options;
  if (likelyPath !== undefined) {
    const netns = await openIfOf(pod, likelyPath);
    if (netns !== undefined) return netns;
  }
  const { peerNetnsId: id } = pod.link;
  if (id === undefined) return undefined;
  const known = await index.pathOf(id);
  const netns = known && await openIfOf(pod, known);
  if (netns) return netns;
  const path = (await index.refresh()).get(id);
  return path === undefined ? undefined : await openIfOf(pod, path);
}

/** Opens the namespace if the pod's end is in there: right name, right index, paired with the host's end, with the pod's addresses. */
async function openIfOf(
  pod: PodOutside,
  path: string,
): Promise<Netns | undefined> {
  const { index, peerIndex } = pod.link;
  return await openIfHas(path, {
    ...pod,
    isEnd: (end) => end.index === peerIndex && end.peerIndex === index,
  });
}

/** Conditions for an interface in a network namespace. */
export interface Wanted {
  readonly ifname: string;
  readonly addresses: DualStack<Address>;
  /** Whether the interface of that name is the one. */
  isEnd?(link: Link): boolean;
}

/** Opens the namespace if it has such an interface; undefined when it has not, or is none. */
export async function openIfHas(
  path: string,
  wanted: Wanted,
): Promise<Netns | undefined> {
  using held = new DisposableStack();
  const netns = tryOpenPodNetns(path);
  if (netns === undefined) return undefined;
  held.use(netns);
  if (!await hasInterface(netns, wanted)) return undefined;
  held.move();
  return netns;
}

async function hasInterface(
  netns: Netns,
  { ifname, addresses, isEnd }: Wanted,
): Promise<boolean> {
  using socket = RouteSocket.open({ netns });
  const link = await socket.getLink({ name: ifname });
  if (link === undefined || isEnd?.(link) === false) return false;
  const wanted = valuesOf(addresses);
  const present = await socket.listAddresses({
    index: link.index,
    keep: ({ prefix }) => wanted.some((one) => one.equals(prefix.address)),
  });
  return wanted.every((address) =>
    present.some(({ prefix }) => prefix.address.equals(address))
  );
}
