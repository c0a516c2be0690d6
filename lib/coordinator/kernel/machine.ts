import { type Netns, writeSysctl } from "../../linux/mod.ts";
import { type Link, NetfilterSocket, RouteSocket } from "../../netlink/mod.ts";
import { announce, answers, findConflict } from "../../probe/mod.ts";
import { deleteHusk } from "./husks.ts";
import type { Outside } from "./ports.ts";

/** What of `lib/podnet` the coordinator uses. */
export interface Podnet {
  /** Opens a pod's network namespace; undefined when there is none at the path. */
  tryOpenNetns(path: string): Netns | undefined;
  /** The host's end of a pod's link. */
  findHostEnd(end: {
    readonly link: Link;
    readonly netns: Netns;
    readonly pod: RouteSocket;
    readonly host: RouteSocket;
    readonly hostNetns?: Netns | undefined;
  }): Promise<Link | undefined>;
  /** Finds the paths of network namespaces by the numbers that they have on the host. */
  indexNetns(
    host: RouteSocket,
  ): { pathOf(id: number): Promise<string | undefined> };
}

/** The kernel of this machine. `hostNetns` stays the caller's; absent: the process's own. */
export function machineOf(
  podnet: Podnet,
  { hostNetns }: { readonly hostNetns?: Netns | undefined } = {},
): Omit<Outside, "shared" | "warn"> {
  return {
    hostNetns,
    probes: { announce, answers, findConflict },
    openPodNetns: (path) => podnet.tryOpenNetns(path),
    openRoutes: (netns) => RouteSocket.open({ netns }),
    openFilters: (netns) => NetfilterSocket.open({ netns }),
    writeSysctl,
    async findHostEnd({ netns, link }) {
      using pod = RouteSocket.open({ netns });
      using host = RouteSocket.open({ netns: hostNetns });
      return await podnet.findHostEnd({ link, netns, pod, host, hostNetns });
    },
    openNamespaces() {
      const host = RouteSocket.open({ netns: hostNetns });
      const index = podnet.indexNetns(host);
      return {
        async ofPeer({ peerNetnsId: id }) {
          const path = id === undefined ? undefined : await index.pathOf(id);
          return path === undefined ? undefined : podnet.tryOpenNetns(path);
        },
        [Symbol.dispose]: () => host[Symbol.dispose](),
      };
    },
    async discard(husk) {
      using host = RouteSocket.open({ netns: hostNetns });
      await deleteHusk(host, husk);
    },
  };
}
