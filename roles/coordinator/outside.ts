import type { Outside } from "../../lib/coordinator/mod.ts";
import type { Netns } from "../../lib/linux/mod.ts";
import {
  type Link,
  NetfilterSocket,
  RouteSocket,
} from "../../lib/netlink/mod.ts";
import { findHostEnd } from "../../lib/podnet/host/mod.ts";
import {
  NetnsIndex,
  NetnsNotFoundError,
  openPodNetns,
} from "../../lib/podnet/netns/mod.ts";
import { describeError } from "../../lib/telemetry/base/mod.ts";

/** The kernel of this machine. `hostNetns` stays the caller's; absent: the process's own. */
export function outsideOf(
  { hostNetns }: { readonly hostNetns?: Netns } = {},
): Outside {
  return {
    hostNetns,
    openPodNetns: tryOpenNetns,
    openRoutes: (netns) => RouteSocket.open({ netns }),
    openFilters: (netns) => NetfilterSocket.open({ netns }),
    async findHostEnd({ netns, link }) {
      using pod = RouteSocket.open({ netns });
      using host = RouteSocket.open({ netns: hostNetns });
      return await findHostEnd({ link, netns, pod, host, hostNetns });
    },
    async findNetnsOf({ peerNetnsId }: Link) {
      if (peerNetnsId === undefined) return undefined;
      using host = RouteSocket.open({ netns: hostNetns });
      const path = await new NetnsIndex(host).pathOf(peerNetnsId);
      return path === undefined ? undefined : tryOpenNetns(path);
    },
    defaults: [],
    warn,
  };
}

function tryOpenNetns(path: string): Netns | undefined {
  try {
    return openPodNetns(path);
  } catch (error) {
    if (error instanceof NetnsNotFoundError) return undefined;
    throw error;
  }
}

/** A runtime keeps what plugins write to stderr. */
function warn(
  message: string,
  fields: Readonly<Record<string, unknown>>,
): void {
  const words = Object.entries(fields).map(([key, value]) =>
    `${key}=${value instanceof Error ? describeError(value) : value}`
  );
  const line = `coordinator: ${[message, ...words].join(" ")}\n`;
  Deno.stderr.writeSync(new TextEncoder().encode(line));
}
