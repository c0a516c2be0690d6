import type { EventInfo, EventRecorder } from "../../../lib/kube/mod.ts";

/** The Node that {@linkcode NodeEvents} are about. */
export interface NodeIdentity {
  readonly nodeName: string;
  /** The UID of the Node object, where it is known. */
  readonly nodeUid: () => string | undefined;
}

/** Reports something by an Event on coild's Node; repetitions are counted by the recorder. */
export class NodeEvents {
  readonly #recorder: Pick<EventRecorder, "event">;
  readonly #node: NodeIdentity;

  constructor(recorder: Pick<EventRecorder, "event">, node: NodeIdentity) {
    this.#recorder = recorder;
    this.#node = node;
  }

  /** Reports it. Never throws. */
  record(info: EventInfo): void {
    const { nodeName: name, nodeUid } = this.#node;
    // Without the UID the name stands for it, as in kubelet's Events.
    const uid = nodeUid() ?? name;
    this.#recorder.event({ apiVersion: "v1", kind: "Node", name, uid }, info);
  }
}
