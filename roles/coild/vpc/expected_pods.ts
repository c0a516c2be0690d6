import type { Address } from "../../../lib/inet/mod.ts";
import type { V1Pod } from "../../../lib/kube/mod.ts";
import { hasOwnNetwork, podAddresses } from "../cluster/pod_status.ts";

/** A pod that the kubelet has begun so long ago waits for something else, a volume for example. */
const STUCK_MS = 300_000;

/**
 * How many of a node's pods have an address, by `isHeld`, or are going to ask for one soon. A status shows an address for
 * a moment after it was released: its pod has ended, or asks again, so it counts when it does. So does a pod that has
 * not asked within five minutes of the kubelet's clock, which is the node's.
 */
export function countExpected(
  pods: readonly V1Pod[],
  { isHeld, nowMs }: {
    readonly isHeld: (address: Address) => boolean;
    readonly nowMs: number;
  },
): number {
  return pods.filter(hasOwnNetwork).filter((pod) => {
    const addresses = podAddresses(pod);
    if (addresses.length > 0) return addresses.some(isHeld);
    const { metadata, status } = pod;
    const isStuck = nowMs - Date.parse(status?.startTime ?? "") >= STUCK_MS;
    return metadata?.deletionTimestamp === undefined && !isStuck;
  }).length;
}
