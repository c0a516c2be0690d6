import type { V1Pod } from "./objects.ts";

/** Selects the pods that have not ended, as a field selector. */
export const LIVE_PODS = "status.phase!=Succeeded,status.phase!=Failed";

/** Whether a pod has come to its end: no pod comes back from these phases. */
export function hasEnded({ status }: Pick<V1Pod, "status">): boolean {
  return status?.phase === "Succeeded" || status?.phase === "Failed";
}

/** Whether a pod's condition Ready is true. */
export function isReadyPod({ status }: V1Pod): boolean {
  return (status?.conditions ?? []).some(({ type, status }) =>
    type === "Ready" && status === "True"
  );
}
