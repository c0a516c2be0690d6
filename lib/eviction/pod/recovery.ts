import { hasEnded, isReadyPod, type V1Pod } from "../../kube/mod.ts";
import { livePodOf } from "../base/live_pod.ts";
import type { Desired } from "./pod_owner.ts";

/** How a controller's pods were before one of them was evicted. */
export interface Before {
  readonly uids: ReadonlySet<string>;
  /** How many there were that were not being deleted. */
  readonly live: number;
  /** How many of these were ready. */
  readonly ready: number;
  /** Whether the one to be evicted was. */
  readonly wasReady: boolean;
}

/** Looks at a controller's pods before one of them is evicted. */
export function before(pods: readonly V1Pod[], uid: string): Before {
  const live = pods.filter(isRunning).map(livePodOf);
  return {
    uids: new Set(pods.map(({ metadata }) => metadata?.uid ?? "")),
    live: live.length,
    ready: live.filter(({ isReady }) => isReady).length,
    wasReady: live.some((pod) => pod.uid === uid && pod.isReady),
  };
}

/**
 * Whether a controller has replaced a pod: as many pods are ready as before, or as many as it wants by now. If it
 * was not ready, pods with an address count; a new pod that has succeeded counts in any case.
 */
export function isRecovered(
  was: Before,
  now: { readonly pods: readonly V1Pod[]; readonly desired: Desired },
): boolean {
  const { pods, desired } = now;
  if (desired.isOver) return true;
  const hasSucceeded = pods.some(({ metadata, status }) =>
    !was.uids.has(metadata?.uid ?? "") && status?.phase === "Succeeded"
  );
  if (hasSucceeded) return true;
  const { replicas = Infinity } = desired;
  if (was.wasReady) {
    const ready = pods.filter(isRunning).filter(isReadyPod);
    return ready.length >= Math.min(was.ready, replicas);
  }
  const addressed = pods.filter(isRunning).filter(({ metadata, status }) =>
    was.uids.has(metadata?.uid ?? "") || (status?.podIPs?.length ?? 0) > 0
  );
  return addressed.length >= Math.min(was.live, replicas);
}

function isRunning(pod: V1Pod): boolean {
  return pod.metadata?.deletionTimestamp === undefined && !hasEnded(pod);
}
