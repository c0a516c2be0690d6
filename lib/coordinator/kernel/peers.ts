import type { Link } from "../../netlink/mod.ts";
import type { Namespaces, Outside, Routes } from "./ports.ts";

/** The pods' networks, as one look at their namespaces has found them. */
export interface Peers extends Disposable {
  /** Opens the one that the other end of a host's link is in; undefined where that cannot be looked at. */
  tryOpen(hostEnd: Link): Promise<Routes | undefined>;
}

/** Looks at the pods' namespaces, once, for any number of the host's links. */
export function openPeers(
  outside: Pick<Outside, "openNamespaces" | "openRoutes">,
): Peers {
  const namespaces = outside.openNamespaces();
  return {
    tryOpen: (hostEnd) => tryOpen(outside, namespaces, hostEnd),
    [Symbol.dispose]: () => namespaces[Symbol.dispose](),
  };
}

/** The end itself is the proof: the path may lead to another namespace by now. */
async function tryOpen(
  { openRoutes }: Pick<Outside, "openRoutes">,
  namespaces: Namespaces,
  hostEnd: Link,
): Promise<Routes | undefined> {
  const { index, peerIndex } = hostEnd;
  using netns = await namespaces.ofPeer(hostEnd);
  if (netns === undefined || peerIndex === undefined) return undefined;
  using held = new DisposableStack();
  const socket = held.use(openRoutes(netns));
  const peer = await socket.getLink({ index: peerIndex });
  if (peer?.kind !== "veth" || peer.peerIndex !== index) return undefined;
  held.move();
  return socket;
}
