import type { EventInfo, EventRecorder } from "../../../lib/kube/mod.ts";
import { AddressError } from "../base/errors.ts";
import { failureOf } from "./cni_errors.ts";
import type { PodSource } from "../cluster/pod_source.ts";
import {
  CONTAINER_ID_ANNOTATION,
  type NamespacedName,
} from "../../../lib/names/mod.ts";

/** The pod that an Event is about. */
export interface ReportedPod extends NamespacedName {
  /**
   * As the runtime has it, by which `kubectl describe` looks for a static pod's Events, too. Without it
   * that of the cached pod of the name, which may be the one before.
   */
  readonly uid?: string | undefined;
}

/**
 * Reports by an Event on a pod why the pod cannot start, or what is wrong
 * with its egress, where an admin can do something about it. What passes by itself makes no Event; repetitions are
 * counted by the recorder.
 */
export class PodEvents {
  readonly #recorder: EventRecorder;
  readonly #pods: Pick<PodSource, "uidOf">;

  constructor(recorder: EventRecorder, pods: Pick<PodSource, "uidOf">) {
    this.#recorder = recorder;
    this.#pods = pods;
  }

  /** Reports the failure of an ADD. Never throws. */
  addFailed(pod: ReportedPod, error: unknown, containerId: string): void {
    const { event } = failureOf(error);
    if (event === undefined || !(error instanceof Error)) return;
    const message = error instanceof AddressError ? error.event : error.message;
    const annotations = { [CONTAINER_ID_ANNOTATION]: containerId };
    this.record(pod, { type: "Warning", reason: event, message, annotations });
  }

  /** Reports something about a pod. Never throws. */
  record(pod: ReportedPod, info: EventInfo): void {
    const { namespace, name, uid = this.#pods.uidOf(namespace, name) } = pod;
    this.#recorder.event({
      apiVersion: "v1",
      kind: "Pod",
      namespace,
      name,
      ...(uid !== undefined && { uid }),
    }, info);
  }
}
