import type { Address } from "../../../lib/inet/mod.ts";
import type { V1Pod } from "../../../lib/kube/mod.ts";
import { hasOwnNetwork, podAddresses } from "../cluster/pod_status.ts";

/** A pod that has been without an address for so long waits for something else, a volume for example. */
const STUCK_MS = 300_000;

/** Pods that have an address, or are going to ask for one soon. */
export class ExpectedPods {
  /** Since when pods have been seen without an address, by their UIDs. */
  #since: ReadonlyMap<string, number> = new Map();

  /**
   * How many of a node's pods have an address, by `isHeld`, or are going to ask for one. A status shows an address for a
   * moment after it was released: its pod has ended, or asks again, so it counts when it does. So does a pod that has
   * not asked within five minutes.
   */
  count(
    pods: readonly V1Pod[],
    { isHeld, nowMs }: {
      readonly isHeld: (address: Address) => boolean;
      readonly nowMs: number;
    },
  ): number {
    const own = pods.filter(hasOwnNetwork).map((pod) => ({
      metadata: pod.metadata ?? {},
      addresses: podAddresses(pod),
    }));
    const bare = own.filter(({ addresses, metadata }) =>
      addresses.length === 0 && metadata.deletionTimestamp === undefined
    ).map(({ metadata: { uid = "" } }) => uid);
    this.#since = new Map(
      bare.map((uid) => [uid, this.#since.get(uid) ?? nowMs]),
    );
    const soon = bare.filter((uid) =>
      nowMs < (this.#since.get(uid) ?? nowMs) + STUCK_MS
    );
    const held = own.filter(({ addresses }) => addresses.some(isHeld));
    return held.length + soon.length;
  }
}
