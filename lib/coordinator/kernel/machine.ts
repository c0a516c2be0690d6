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
  /** The path of the network namespace that has this number on the host. */
  netnsPathOf(host: RouteSocket, id: number): Promise<string | undefined>;
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
    async findNetnsOf({ peerNetnsId }) {
      if (peerNetnsId === undefined) return undefined;
      using host = RouteSocket.open({ netns: hostNetns });
      const path = await podnet.netnsPathOf(host, peerNetnsId);
      return path === undefined ? undefined : podnet.tryOpenNetns(path);
    },
    async discard(husk) {
      using host = RouteSocket.open({ netns: hostNetns });
      await deleteHusk(host, husk);
    },
  };
}
