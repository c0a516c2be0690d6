import type { AttachmentKey } from "../../cni/mod.ts";
import type { Link } from "../../netlink/mod.ts";
import { cutOff, discardHusks } from "../kernel/husks.ts";
import type { Outside, Routes } from "../kernel/ports.ts";
import { parseVethAlias } from "../plan/veth.ts";

/**
 * Removes what DEL should have removed: pairs of containers of which no
 * attachment is valid, once the interface that they were made for is gone from
 * the pod. The list is that of one network, and a pair serves those of others,
 * so the list alone proves nothing: a pair in doubt stays, and is reported.
 */
export async function collect(
  outside: Outside,
  host: Routes,
  valid: readonly AttachmentKey[],
): Promise<void> {
  const live = new Set(valid.map(({ containerId }) => containerId));
  const links = await host.listLinks();
  await discardHusks(outside, links);
  for (const link of links) {
    const owner = parseVethAlias(link.alias);
    if (owner === undefined || live.has(owner.containerId)) continue;
    if (!await isOrphan(outside, link, owner)) {
      outside.warn("Left the link of a pod that is in no list", {
        ...owner,
        link: link.name,
      });
      continue;
    }
    const husk = await cutOff(host, link);
    if (husk !== undefined) await outside.discard(husk);
  }
}

async function isOrphan(
  outside: Outside,
  hostEnd: Link,
  { ifname }: AttachmentKey,
): Promise<boolean> {
  using netns = await outside.findNetnsOf(hostEnd);
  if (netns === undefined) return false;
  using pod = outside.openRoutes(netns);
  return await pod.getLink({ name: ifname }) === undefined;
}
