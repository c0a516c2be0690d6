import type { PodKey, PodName } from "../../../lib/podnet/mod.ts";

/** The text by which locks and tables know an attachment; an interface name has no colon. */
export function keyText({ containerId, ifname }: PodKey): string {
  return `${containerId}:${ifname}`;
}

/** The text by which caches know a pod. */
export function podKey({ namespace, name }: PodName): string {
  return `${namespace}/${name}`;
}
