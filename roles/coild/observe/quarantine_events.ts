import { valuesOf } from "../../../lib/inet/mod.ts";
import { keyText } from "../../../lib/cni/mod.ts";
import type { AllocationRecord } from "../../../lib/ipam/mod.ts";
import { podName } from "../cluster/pod_status.ts";
import type { PodSource } from "../cluster/pod_source.ts";
import type { PodEvents } from "./pod_events.ts";

export interface QuarantineEventsOptions {
  readonly pods: Pick<PodSource, "withAddress">;
  readonly events: Pick<PodEvents, "record">;
}

/** Reports by an Event on a running pod that no block of its node has the pod's address any longer. */
export class QuarantineEvents {
  readonly #with: QuarantineEventsOptions;
  /** Those with an Event, by key and generation. */
  #reported: ReadonlySet<string> = new Set();

  constructor(options: QuarantineEventsOptions) {
    this.#with = options;
  }

  /** Takes all that are quarantined now. One that no known pod has is tried again with the next list. */
  report(records: readonly AllocationRecord[]): void {
    const { pods, events } = this.#with;
    const reported = new Set<string>();
    for (const record of records) {
      const addresses = valuesOf(record.addresses);
      const key = `${keyText(record)} ${record.generation}`;
      const known = addresses.flatMap((address) => pods.withAddress(address));
      if (this.#reported.has(key) || known.length > 0) reported.add(key);
      if (this.#reported.has(key)) continue;
      for (const pod of new Set(known)) {
        events.record(podName(pod), {
          type: "Warning",
          // As of an ADD or CHECK of the pod.
          reason: "AddressQuarantined",
          message: `the node no longer has this pod's address ${
            addresses.join(" and ")
          }, so its packets may be lost; delete the pod to get another address`,
        });
      }
    }
    this.#reported = reported;
  }
}
