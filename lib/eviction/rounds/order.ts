import type { LivePod } from "../base/live_pod.ts";

/** How many pods may be under way at the same time. */
export interface Limits {
  readonly parallel: number;
  readonly perNode: number;
  readonly perNamespace: number;
}

/**
 * The pod to take next: the first whose node, namespace and controller have not too many under way. Undefined: none now.
 *
 * Of one controller there is never more than one: the new pods could not be distinguished.
 */
export function nextPod(
  waiting: readonly LivePod[],
  active: readonly LivePod[],
  limits: Limits,
): LivePod | undefined {
  if (active.length >= limits.parallel) return undefined;
  const count = (same: (other: LivePod) => boolean) =>
    active.filter(same).length;
  return waiting.find((pod) =>
    count(({ node }) => node === pod.node) < limits.perNode &&
    count(({ namespace }) => namespace === pod.namespace) <
      limits.perNamespace &&
    (pod.controller === undefined ||
      count(({ controller }) => controller?.uid === pod.controller?.uid) === 0)
  );
}
