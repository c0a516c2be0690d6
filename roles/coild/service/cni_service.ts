import type { KeyedMutex } from "../../../lib/async/mod.ts";
import {
  CniError,
  ErrorCode,
  keyText,
  type Result,
} from "../../../lib/cni/mod.ts";
import type { CniRequest } from "../../../lib/plugin/mod.ts";
import type { Attachments, CallOptions } from "../calls/attachments.ts";
import {
  type AddRequest,
  parseAdd,
  parseKey,
  parsePodName,
} from "../calls/cni_request.ts";
import type { EgressCalls } from "../egress/calls.ts";
import type { CoildMetrics } from "../observe/metrics.ts";
import type { PodEvents } from "../observe/pod_events.ts";
import type { PodFacts, PodSource } from "../cluster/pod_source.ts";
import type { Readiness } from "../observe/readiness.ts";
import type { CniMethods } from "./cni_calls.ts";

export interface CniServiceOptions {
  readonly attachments: Attachments;
  readonly egress: EgressCalls;
  readonly pods: Pick<PodSource, "find">;
  readonly events: PodEvents;
  readonly metrics: CoildMetrics;
  readonly readiness: Readiness;
  /** Guards everything about one attachment; shared with the reconcilers. */
  readonly locks: KeyedMutex;
}

/**
 * Answers the CNI plugin: one method for each command.
 *
 * Calls about one attachment follow each other; calls about different ones
 * never wait for one another.
 */
export class CniService implements CniMethods {
  readonly #with: CniServiceOptions;

  constructor(options: CniServiceOptions) {
    this.#with = options;
  }

  /** Connects a pod; see `docs/architecture.md` for the steps. */
  async add(args: CniRequest, { signal }: CallOptions): Promise<Result> {
    const { attachments, locks, metrics, readiness, events } = this.#with;
    const request = parseAdd(args);
    attachments.accept(request);
    readiness.assertReady();
    using held = new DisposableStack();
    held.use(
      await metrics.phase(
        "lock",
        () => locks.lock(keyText(request), { signal }),
      ),
    );
    let { uid } = request.pod;
    const onFound = (pod: PodFacts) => uid ??= pod.uid;
    try {
      return await this.#attach(request, { held, signal, onFound });
    } catch (error) {
      const { namespace, name } = request.pod;
      events.addFailed({ namespace, name, uid }, error, request.containerId);
      throw error;
    }
  }

  /** Takes a pod off the network. Ignores what is already gone. */
  async del(args: CniRequest, { signal }: CallOptions): Promise<void> {
    const key = parseKey(args);
    const { attachments, egress, locks } = this.#with;
    using held = new DisposableStack();
    held.use(await locks.lock(keyText(key), { signal }));
    const options = { held, signal, ...parsePodName(args) };
    egress.forget(await attachments.disconnect(key, options));
  }

  /** Compares a pod's network with what ADD made. */
  async check(args: CniRequest, { signal }: CallOptions): Promise<void> {
    const { attachments, egress } = this.#with;
    const key = await attachments.check(args, { signal });
    await egress.check(key, { signal });
  }

  /** Releases what the runtime no longer has (CNI 1.1 GC). */
  async gc(args: CniRequest, { signal }: CallOptions): Promise<void> {
    const { attachments, egress } = this.#with;
    const onReleased = egress.forget.bind(egress);
    await attachments.gc(args, { signal, onReleased });
  }

  /**
   * Says whether ADD is served (CNI 1.1 STATUS).
   *
   * @throws {CniError} with code 50 and the reason when it is not.
   */
  async status(): Promise<void> {
    const { reason } = this.#with.readiness;
    if (reason === undefined) return;
    throw new CniError(`Cannot serve pods yet: ${reason}`, {
      code: ErrorCode.PLUGIN_NOT_AVAILABLE,
    });
  }

  async #attach(
    request: AddRequest,
    { onFound, ...options }: {
      readonly held: DisposableStack;
      readonly signal: AbortSignal;
      readonly onFound: (pod: PodFacts) => void;
    },
  ): Promise<Result> {
    const { attachments, egress, metrics, pods } = this.#with;
    const { held, signal } = options;
    const { pod, wanted } = await metrics.phase("pod", async () => {
      const pod = await pods.find(request.pod, { signal });
      onFound(pod);
      // Asked first: a pod that cannot have its egress needs no address.
      return { pod, wanted: await egress.wanted(request, pod, { signal }) };
    });
    await using announcement = egress.announcement(request, { wanted, signal });
    const connected = await attachments.connect(request, pod, {
      ...options,
      announcement,
    });
    try {
      await egress.setUp(connected, { request, wanted, announcement, signal });
    } catch (error) {
      egress.forget(connected.key);
      await connected.undo(held);
      throw error;
    }
    return connected.result;
  }
}
