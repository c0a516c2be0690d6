import { Netns } from "../../linux/mod.ts";
import { type Link, netnsIdGet, type RouteSocket } from "../../netlink/mod.ts";

/** An interface inside a pod, and the sockets to both sides. */
export interface PodEnd {
  /** The interface. */
  readonly link: Link;
  /** The pod's network namespace. */
  readonly netns: Netns;
  /** A socket inside it. */
  readonly pod: RouteSocket;
  readonly host: RouteSocket;
  /** The host's network namespace; absent: the process's own. */
  readonly hostNetns?: Netns | undefined;
}

/**
 * Finds the host's end of a pod's interface: the link that both sides say to
 * be the other end. Undefined when there is none on the host, as of a macvlan,
 * whose parent is not an end of it, or of a veth that leads elsewhere.
 */
export async function findHostEnd(end: PodEnd): Promise<Link | undefined> {
  const { link, netns, pod, host } = end;
  if (link.peerIndex === undefined) return undefined;
  using own = end.hostNetns === undefined ? Netns.current() : undefined;
  const hostNetns = end.hostNetns ?? own;
  if (hostNetns === undefined) return undefined;
  const hostId = await idOf(hostNetns, pod);
  if (hostId === undefined || hostId !== link.peerNetnsId) return undefined;
  const found = await host.getLink({ index: link.peerIndex });
  const isEnd = found?.kind === "veth" && found.peerIndex === link.index &&
    found.peerNetnsId === await idOf(netns, host);
  return isEnd ? found : undefined;
}

/** The number that the socket's namespace has for another one. */
async function idOf(
  netns: Netns,
  socket: RouteSocket,
): Promise<number | undefined> {
  let id: number | undefined;
  await socket.execute([netnsIdGet(netns, (known) => id = known)]);
  return id;
}
