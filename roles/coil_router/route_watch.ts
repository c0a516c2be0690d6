import {
  listen,
  MAIN_TABLE,
  type Notification,
  RouteMonitor,
  warnOfDeafness,
} from "../../lib/netlink/mod.ts";
import { getLogger } from "../../lib/telemetry/mod.ts";

const log = getLogger("route-syncer");

export interface RouteWatchOptions {
  /** The protocol number on our routes. */
  readonly protocolId: number;
  /** The socket whose changes are our own. */
  readonly ownPortId: number;
  /** The links that our routes leave by, as far as that is known. */
  readonly links: () => ReadonlySet<number>;
  /** Called when our routes may have changed. */
  readonly onChange: () => void;
  readonly signal: AbortSignal;
}

/**
 * Listens to what others do to our routes until the signal. The kernel drops
 * IPv4 routes without a word when their link is set down, and IPv6 ones may
 * come back by themselves; so links count, too: those of our routes, and any
 * while no route is known.
 */
export async function watchRoutes(options: RouteWatchOptions): Promise<void> {
  const { protocolId: protocol, ownPortId, onChange, signal } = options;
  await listen({
    watch: () =>
      RouteMonitor.open({
        interests: {
          routes: [{ table: MAIN_TABLE, protocol }],
          links: ["down", "up", "gone"],
          addresses: "both",
        },
        ignoredPortIds: [ownPortId],
      }),
    onStart: onChange,
    onHeard: (found) => {
      const links = options.links();
      if (found.some((one) => isOurs(one, links))) onChange();
    },
    onFailure: warnOfDeafness(log, "checking the routes every 30 s"),
    signal,
  });
}

/** Whether a notification may be about our routes. Pure; exported for its tests. */
export function isOurs(
  notification: Notification,
  links: ReadonlySet<number>,
): boolean {
  switch (notification.kind) {
    case "route":
    case "overflow":
      return true;
    case "link":
    case "address":
      return links.size === 0 || links.has(notification.index);
    default:
      return false;
  }
}
