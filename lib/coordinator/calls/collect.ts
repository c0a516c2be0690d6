import type { AttachmentKey } from "../../cni/mod.ts";
import { Prefix } from "../../inet/mod.ts";
import { COORDINATOR_PROTOCOL } from "../../names/mod.ts";
import {
  type Link,
  neighbourDelete,
  type Request,
  type Route,
} from "../../netlink/mod.ts";
import { cutOff, discardHusks } from "../kernel/husks.ts";
import type { Outside, Routes } from "../kernel/ports.ts";
import { openPeers, type Peers } from "../kernel/peers.ts";
import { remove, routeRemoval } from "../kernel/remove.ts";
import { pairOf } from "../plan/veth.ts";
import { sourceTexts } from "../state/state.ts";

/**
 * Removes what DEL should have removed: pairs of containers of which no
 * attachment is valid, once the interface that they were made for is gone from
 * the pod. The list is that of one network, and a pair serves those of others,
 * so the list alone proves nothing: a pair in doubt stays, and is reported.
 * Of living pods, what the host has for addresses that none of their interfaces
 * has goes, too.
 */
export async function collect(
  outside: Outside,
  host: Routes,
  valid: readonly AttachmentKey[],
): Promise<void> {
  const live = new Set(valid.map(({ containerId }) => containerId));
  const links = await host.listLinks();
  await discardHusks(outside, links);
  using peers = openPeers(outside);
  await forgetLost(host, links, peers);
  for (const link of links) {
    const owner = pairOf(link);
    if (owner === undefined || live.has(owner.containerId)) continue;
    if (!await isOrphan(link, owner, peers)) {
      outside.warn(
        "Kept a pair: its container is not in the runtime's list, but its interface is in the pod",
        { ...owner, link: link.name },
      );
      continue;
    }
    const husk = await cutOff(host, link);
    if (husk !== undefined) await outside.discard(husk);
  }
}

async function isOrphan(
  hostEnd: Link,
  { ifname }: AttachmentKey,
  peers: Peers,
): Promise<boolean> {
  using pod = await peers.tryOpen(hostEnd);
  return pod !== undefined &&
    await pod.getLink({ name: ifname }) === undefined;
}

/** Of interfaces whose DEL was lost; the pod's link to the host serves others. */
async function forgetLost(
  host: Routes,
  links: readonly Link[],
  peers: Peers,
): Promise<void> {
  const routes = await host.listRoutes({ protocol: COORDINATOR_PROTOCOL });
  for (const link of links) {
    const own = routes.filter(({ index }) => index === link.index);
    const lost = own.length === 0 ? [] : await lostOf(link, own, peers);
    await remove(host, lost.flatMap(removals));
  }
}

/** Those whose address is nowhere in the pod; none where the pod cannot be looked at. */
async function lostOf(
  hostEnd: Link,
  routes: readonly Route[],
  peers: Peers,
): Promise<readonly Route[]> {
  using pod = await peers.tryOpen(hostEnd);
  if (pod === undefined) return [];
  const sought = new Set(routes.map(({ destination }) => String(destination)));
  const present = sourceTexts(
    (await pod.listAddresses({
      keep: ({ prefix }) => sought.has(String(Prefix.host(prefix.address))),
    })).map(({ prefix }) => prefix.address),
  );
  return routes.filter(({ destination }) =>
    destination !== undefined && !present.has(String(destination))
  );
}

function removals(route: Route): readonly Request[] {
  const { destination, index } = route;
  return [
    routeRemoval(route),
    ...destination === undefined || index === undefined
      ? []
      : [neighbourDelete({ index, address: destination.address })],
  ];
}
