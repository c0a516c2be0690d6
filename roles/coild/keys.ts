import type { PodKey } from "../../lib/podnet/mod.ts";

/** The text by which locks and tables know an attachment; an interface name has no colon. */
export function keyText({ containerId, ifname }: PodKey): string {
  return `${containerId}:${ifname}`;
}
