import type { Address } from "../../../lib/inet/mod.ts";
import { keyOf, type V1Namespace, type V1Pod } from "../../../lib/kube/mod.ts";
import {
  asksForAnySource,
  type SourceChoice,
  sourceRefusal,
} from "../cluster/any_source.ts";
import type { PodEvents } from "../observe/pod_events.ts";
import type { PodSource } from "../cluster/pod_source.ts";
import { podName } from "../cluster/pod_status.ts";

export interface SourceWatchOptions {
  readonly pods: Pick<
    PodSource,
    | "knownSourcesOf"
    | "list"
    | "subscribe"
    | "subscribeNamespaces"
    | "withAddress"
  >;
  readonly events: Pick<PodEvents, "record">;
}

/** Follows which pods of the node ask to send from any source, and which namespaces allow it. */
export class SourceWatch {
  readonly #with: SourceWatchOptions;
  /** Pods with the annotation. */
  readonly #asking = new Set<string>();
  /** Those with an Event that it has no effect, by UID. */
  readonly #reported = new Set<string>();

  constructor(options: SourceWatchOptions) {
    this.#with = options;
  }

  /** What the pod with this address may send; undefined when that is not known. Of several the strictest counts. */
  choiceOf(address: Address): SourceChoice | undefined {
    const { pods } = this.#with;
    const choices = pods.withAddress(address).flatMap((pod) =>
      pods.knownSourcesOf(pod) ?? []
    );
    return choices.find((choice) => choice !== "any") ?? choices[0];
  }

  /** Calls back when a choice may have changed, and reports pods that ask without being allowed to. */
  subscribe(onChange: () => void): Disposable {
    const { pods } = this.#with;
    const stack = new DisposableStack();
    stack.use(pods.subscribe(({ type, object }) => {
      const asks = type !== "deleted" && isAsking(object);
      if (this.#podChanged(object, { asks })) onChange();
    }));
    stack.use(pods.subscribeNamespaces(({ object }) => {
      if (this.#namespaceChanged(object)) onChange();
    }));
    for (const pod of pods.list()) {
      this.#podChanged(pod, { asks: isAsking(pod) });
    }
    return stack;
  }

  #podChanged(pod: V1Pod, { asks }: { readonly asks: boolean }): boolean {
    const key = keyOf(pod);
    const asked = this.#asking.has(key);
    if (asks) this.#asking.add(key);
    else this.#asking.delete(key);
    if (asks) this.#reportRefusal(pod);
    else this.#reported.delete(pod.metadata?.uid ?? "");
    return asked || asks;
  }

  /** Once for each time that it is refused. */
  #reportRefusal(pod: V1Pod): void {
    const { namespace = "", uid = "" } = pod.metadata ?? {};
    const { events, pods } = this.#with;
    if (pods.knownSourcesOf(pod) !== "refused") {
      this.#reported.delete(uid);
      return;
    }
    if (this.#reported.has(uid)) return;
    this.#reported.add(uid);
    events.record(podName(pod), {
      type: "Warning",
      reason: "AnySourceRefused",
      message: sourceRefusal(namespace),
    });
  }

  /** Counts only where pods ask: whether it allowed them before is not known of namespaces that are older than this. */
  #namespaceChanged({ metadata }: V1Namespace): boolean {
    const asking = this.#with.pods.list().filter((pod) =>
      pod.metadata?.namespace === metadata?.name && isAsking(pod)
    );
    for (const pod of asking) this.#reportRefusal(pod);
    return asking.length > 0;
  }
}

function isAsking({ metadata }: V1Pod): boolean {
  return asksForAnySource(metadata?.annotations);
}
