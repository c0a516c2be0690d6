import type { EventInfo, EventRecorder } from "../../../lib/kube/mod.ts";
import { AddressError } from "../base/errors.ts";
import { failureOf } from "./cni_errors.ts";
import type { PodSource } from "../cluster/pod_source.ts";
import {
  CONTAINER_ID_ANNOTATION,
  type NamespacedName,
} from "../../../lib/names/mod.ts";

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
  addFailed(pod: NamespacedName, error: unknown, containerId: string): void {
    const { event } = failureOf(error);
    if (event === undefined || !(error instanceof Error)) return;
    const message = error instanceof AddressError ? error.event : error.message;
    const annotations = { [CONTAINER_ID_ANNOTATION]: containerId };
    this.record(pod, { type: "Warning", reason: event, message, annotations });
  }

  /** Reports something about a pod. Never throws. */
  record({ namespace, name }: NamespacedName, info: EventInfo): void {
    const uid = this.#pods.uidOf(namespace, name);
    this.#recorder.event({
      apiVersion: "v1",
      kind: "Pod",
      namespace,
      name,
      ...(uid !== undefined && { uid }),
    }, info);
  }
}
