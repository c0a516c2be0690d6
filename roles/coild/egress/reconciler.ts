import { abortable, Backoff, type KeyedMutex } from "../../../lib/async/mod.ts";
import {
  Controller,
  keyOf,
  type KubeMetrics,
  type ReconcileResult,
  type StoreChange,
  type V1Pod,
} from "../../../lib/kube/mod.ts";
import { GatewayNetnsError, namesEgress } from "../../../lib/egress/mod.ts";
import { FouUnsupportedError } from "../../../lib/netlink/mod.ts";
import { getLogger } from "../../../lib/telemetry/mod.ts";
import type { AttachmentBook } from "../calls/attachment_book.ts";
import type { Attachments } from "../calls/attachments.ts";
import type { EgressSetup } from "./setup.ts";
import type { UpdateOutcome } from "./updates.ts";
import { InvalidAnnotationError } from "../base/errors.ts";
import type { EgressSource } from "../gateways/source.ts";
import { isGatewayPod } from "../../../lib/api/mod.ts";
import { gatewayRefusal } from "../cluster/gateway_pods.ts";
import type { CoildMetrics } from "../observe/metrics.ts";
import type { PodEvents } from "../observe/pod_events.ts";
import type { PodSource } from "../cluster/pod_source.ts";
import { hasOwnNetwork, podAddresses, podName } from "../cluster/pod_status.ts";
import { keyText } from "../../../lib/cni/mod.ts";
import type { Attachment } from "../calls/attachment.ts";
import { type NamespacedName, nameText } from "../../../lib/names/mod.ts";

const log = getLogger("egress-watcher");

/** Setting up one pod is a few milliseconds, most of it waiting for the kernel. */
const CONCURRENCY = 4;
/** A kernel that has no tunnels may get them, when an admin has read the Event. */
const UNSUPPORTED_RETRY_MS = 60_000;
/** The other pod's status may lose the address without a word about this one. */
const AMBIGUOUS_RETRY_MS = 30_000;

export interface EgressReconcilerOptions {
  readonly pods: PodSource;
  readonly source: EgressSource;
  readonly setup: EgressSetup;
  readonly attachments: Pick<Attachments, "find">;
  readonly book: AttachmentBook;
  readonly events: Pick<PodEvents, "record">;
  /** Guards everything about one attachment; shared with the CNI service. */
  readonly locks: KeyedMutex;
  readonly metrics: CoildMetrics;
  readonly kubeMetrics?: KubeMetrics;
}

/** Reported problems of a pod, so that they are not reported again. */
interface PodNotes {
  /** Between updates: its network namespace is not found, or something has to wait. */
  readonly wait?: Backoff | undefined;
  /** The pods that have one of its addresses, too. */
  readonly conflict?: string | undefined;
  /** Why it cannot be a client: the kernel cannot, or the annotation is wrong. */
  readonly refused?: string | undefined;
  /** What identified its interface when it was not found; of pods that are not clients. */
  readonly unfound?: string | undefined;
  /** Why it cannot be a client: it is a gateway. */
  readonly gateway?: string | undefined;
}

/**
 * Keeps this node's pods as their annotations say, after each change of
 * annotations, Egresses, Services, gateways, or coild's own flags at a start.
 *
 * The key is a pod. Pods that have nothing to do with egress cost nothing, but
 * for one look each after a start.
 */
export class EgressReconciler {
  readonly #with: EgressReconcilerOptions;
  readonly #controller: Controller;
  readonly #notes = new Map<string, PodNotes>();

  constructor(options: EgressReconcilerOptions) {
    this.#with = options;
    this.#controller = new Controller({
      name: "egress-watcher",
      concurrency: CONCURRENCY,
      metrics: options.kubeMetrics,
      reconcile: (key, signal) => this.#count(key, signal),
    });
  }

  /** Asks for a look at a pod. */
  enqueue(pod: NamespacedName): void {
    this.#controller.enqueue(nameText(pod));
  }

  /** Asks for a look at each pod whose annotations name an Egress, given by its key. */
  enqueueClients(egress: string): void {
    for (const pod of this.#with.pods.clientsOf(egress)) {
      this.#controller.enqueue(keyOf(pod));
    }
  }

  /** Follows the API server until the signal. */
  async run(signal: AbortSignal): Promise<void> {
    const { pods, source } = this.#with;
    await abortable(pods.synced(), signal);
    await this.#findAll();
    using _pods = pods.subscribe((change) => this.#onPod(change));
    using _namespaces = pods.subscribeNamespaces(({ key }) => {
      for (const pod of pods.inNamespace(key)) {
        this.#controller.enqueue(keyOf(pod));
      }
    });
    using _egresses = source.subscribe((egress) => this.enqueueClients(egress));
    for (const pod of pods.list()) this.#controller.enqueue(keyOf(pod));
    await this.#controller.run(signal);
  }

  #onPod({ type, object, key }: StoreChange<V1Pod>): void {
    if (type === "deleted") this.#forget(key, object);
    else this.#controller.enqueue(key);
    // An address that is free again, or taken, concerns who else has it.
    for (const other of this.#with.pods.withSameAddress(object)) {
      this.#controller.enqueue(keyOf(other));
    }
    // So does one that a gateway had, as far as the EndpointSlices say.
    for (const egress of this.#with.setup.egressesAt(podAddresses(object))) {
      this.enqueueClients(egress);
    }
  }

  /** All at once, since each look lists the kernel's links. What fails here is looked for again, one by one. */
  async #findAll(): Promise<void> {
    const { attachments, book, pods } = this.#with;
    try {
      const living = pods.list().filter((pod) =>
        hasOwnNetwork(pod) && book.of(pod) === undefined &&
        pods.withSameAddress(pod).length === 0
      );
      const found = await attachments.find(living);
      for (const pod of living) {
        const attachment = found.get(keyOf(pod));
        if (attachment === undefined || book.isOfAnother(attachment)) {
          this.#note(keyOf(pod), { unfound: soughtOf(pod) });
          continue;
        }
        // An ADD may have been faster.
        if (book.of(pod) === undefined) book.add(attachment);
      }
    } catch (err) {
      log.warn("Cannot find the pods that ran before coild started", { err });
    }
  }

  async #count(key: string, signal: AbortSignal): Promise<ReconcileResult> {
    const { metrics } = this.#with;
    try {
      const result = await this.#reconcile(key, signal);
      metrics.egressUpdated("ok");
      return result;
    } catch (error) {
      if (!signal.aborted) metrics.egressUpdated("error");
      throw error;
    }
  }

  async #reconcile(key: string, signal: AbortSignal): Promise<ReconcileResult> {
    const { book, pods, setup } = this.#with;
    const pod = pods.get(key);
    // Gone, or so new that the cache does not have it yet.
    if (pod === undefined) return this.#note(key, { wait: undefined });
    if (!hasOwnNetwork(pod)) return this.#forget(key, pod);
    const isClient = namesEgress(pods.annotationsOf(pod));
    const known = book.of(pod);
    if (!isClient) this.#note(key, { gateway: undefined });
    if (!isClient && known !== undefined && setup.isNone(known)) return;
    if (isClient && isGatewayPod(pod)) return this.#refuse(key, pod);
    // Its ADD is not over, and will do what there is to do.
    if (known === undefined && podAddresses(pod).length === 0) return;
    // A pod from before the start is looked for once: an earlier coild may have made it a client.
    const isUnfound = this.#notes.get(key)?.unfound === soughtOf(pod);
    if (!isClient && known === undefined && isUnfound) return;
    if (this.#isAmbiguous(key, pod)) {
      return { requeueAfterMs: AMBIGUOUS_RETRY_MS };
    }
    const attachment = known ?? await this.#find(key, pod);
    if (attachment === undefined && !isClient) {
      return this.#note(key, { unfound: soughtOf(pod) });
    }
    // mutate: only frees memory; what was found is in the book, which is asked first.
    this.#note(key, { unfound: undefined });
    const outcome = attachment === undefined
      ? "not found"
      : await this.#update(attachment, { key, signal });
    if (outcome === "not found" || outcome === "later") {
      return { requeueAfterMs: this.#waitOf(key, outcome).nextMs() };
    }
    this.#note(key, { wait: undefined });
    // Behind all pods that wait.
    if (outcome === "again") return { requeueAfterMs: 0 };
    return outcome === "done" ? undefined : outcome;
  }

  async #update(
    attachment: Attachment,
    { key, signal }: { readonly key: string; readonly signal: AbortSignal },
  ): Promise<UpdateOutcome | { readonly requeueAfterMs: number }> {
    const { book, locks, pods, setup } = this.#with;
    using _lock = await locks.lock(keyText(attachment.key), {
      signal,
      upkeep: true,
    });
    // The state counts as it is now, not as it was before the lock.
    const pod = pods.get(key);
    if (pod === undefined || book.of(pod) !== attachment) return "not found";
    const annotations = pods.annotationsOf(pod);
    // The cache of namespaces is behind that of pods; the namespace comes still.
    if (annotations === undefined) return "done";
    try {
      const outcome = await setup.update(attachment, annotations, { signal });
      this.#note(key, { refused: undefined });
      setup.refused(attachment.key);
      return outcome;
    } catch (error) {
      if (error instanceof GatewayNetnsError) {
        this.#refuse(key, pod);
        return "done";
      }
      if (error instanceof InvalidAnnotationError) {
        // The pod stays as it is, until the annotation changes.
        this.#reportRefused(attachment, error, { reason: "EgressInvalid" });
        return "done";
      }
      if (!(error instanceof FouUnsupportedError)) throw error;
      this.#reportRefused(attachment, error, { reason: "EgressUnsupported" });
      return { requeueAfterMs: UNSUPPORTED_RETRY_MS };
    } finally {
      // The pod may be gone by then, and nothing else would forget it again.
      if (book.at(attachment.key) !== attachment) setup.forget(attachment.key);
    }
  }

  /** A gateway stays what it is, and its annotation without effect; nothing is to be tried again. */
  #refuse(key: string, pod: V1Pod): void {
    const message = gatewayRefusal(pod);
    if (this.#notes.get(key)?.gateway === message) return;
    this.#note(key, { gateway: message });
    const name = podName(pod);
    this.#with.events.record(name, {
      type: "Warning",
      reason: "EgressRefused",
      message,
    });
    log.warn("Ignoring the egress annotation of a gateway pod", { ...name });
  }

  /** Once, not at each attempt. */
  #reportRefused(
    { key: attachmentKey, pod }: Attachment,
    error: FouUnsupportedError | InvalidAnnotationError,
    { reason }: { readonly reason: "EgressInvalid" | "EgressUnsupported" },
  ): void {
    const key = nameText(pod);
    const { message } = error;
    this.#with.setup.refused(attachmentKey, reason);
    if (this.#notes.get(key)?.refused === message) return;
    this.#note(key, { refused: message });
    this.#with.events.record(pod, { type: "Warning", reason, message });
    log.error("Cannot make a pod an egress client", { ...pod, err: error });
  }

  async #find(key: string, pod: V1Pod): Promise<Attachment | undefined> {
    const { attachments, book } = this.#with;
    const found = (await attachments.find([pod])).get(key);
    // An ADD may have been faster.
    const known = book.of(pod);
    if (known !== undefined || found === undefined) return known;
    // The pod's status is older than the interface that has its address now.
    if (book.isOfAnother(found)) return undefined;
    book.add(found);
    return found;
  }

  /** W33: it is unknown which of two pods has the address; no other pod waits for that. */
  #isAmbiguous(key: string, pod: V1Pod): boolean {
    const others = this.#with.pods.withSameAddress(pod).map(keyOf).sort();
    // mutate: words for people.
    const text = others.join('", "');
    const isConflict = others.length > 0;
    if (isConflict && this.#notes.get(key)?.conflict !== text) {
      const name = podName(pod);
      const message =
        `Pod "${text}" on this node has the same address as this pod; the egress of both stays unchanged until one of them is gone`;
      this.#with.events.record(name, {
        type: "Warning",
        reason: "AddressConflict",
        message,
      });
      log.warn("Two pods have one address", { ...name, others });
    }
    this.#note(key, { conflict: isConflict ? text : undefined });
    return isConflict;
  }

  #waitOf(key: string, outcome: "not found" | "later"): Backoff {
    const known = this.#notes.get(key)?.wait;
    if (known !== undefined) return known;
    log.debug("Cannot finish a pod's egress yet", { pod: key, outcome });
    const wait = new Backoff({ initialMs: 200, maxMs: 60_000 });
    this.#note(key, { wait });
    return wait;
  }

  /** Forgets a pod of which nothing is left to note. */
  #note(key: string, news: PodNotes): void {
    const notes = { ...this.#notes.get(key), ...news };
    const isEmpty = Object.values(notes).every((each) => each === undefined);
    // mutate: only frees memory.
    if (isEmpty) this.#notes.delete(key);
    else this.#notes.set(key, notes);
  }

  /** A later pod of the name is another one. */
  #forget(key: string, pod: V1Pod): void {
    const { book, setup } = this.#with;
    const attachment = book.of(pod);
    this.#notes.delete(key);
    if (attachment === undefined) return;
    book.forget(attachment.key);
    setup.forget(attachment.key);
  }
}

/** What identifies a pod's interface when it is looked for. */
function soughtOf(pod: V1Pod): string {
  // mutate: UIDs are of one length, so no blank is needed to tell these apart.
  return [pod.metadata?.uid, ...podAddresses(pod)].join(" ");
}
