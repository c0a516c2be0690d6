import type { Address } from "../../../lib/inet/mod.ts";
import type { V1Pod } from "../../../lib/kube/mod.ts";
import { hasOwnNetwork, podAddresses } from "../cluster/pod_status.ts";

/**
 * How many of a node's pods have an address, by `isHeld`, or are going to ask for one. A status shows an address for a
 * moment after it was released: its pod has ended, or asks again, so it counts when it does.
 */
export function countExpected(
  pods: readonly V1Pod[],
  isHeld: (address: Address) => boolean,
): number {
  return pods.filter(hasOwnNetwork).filter((pod) => {
    const addresses = podAddresses(pod);
    return addresses.length === 0
      ? pod.metadata?.deletionTimestamp === undefined
      : addresses.some(isHeld);
  }).length;
}
