import {
  clientSliceName,
  clientSliceSelector,
  EGRESS_CLIENT_SLICES,
  FIRST_SLICE,
} from "../../../lib/api/mod.ts";
import { abortable, Gate, withTimeout } from "../../../lib/async/mod.ts";
import { Informer, type KubeClient } from "../../../lib/kube/mod.ts";
import type { ClientPod } from "./client_pod.ts";
import { type ClientPodChange, SliceClients } from "./slice_clients.ts";
import { getLogger } from "../../../lib/telemetry/mod.ts";
import type { NamespacedName } from "../../../lib/names/mod.ts";

const log = getLogger("pod-watcher");

/** coil-controller writes a deleted slice again within a second, unless it is away. */
const LOST_MS = 30_000;

/** The first slice is there before the Deployment of the gateway is. */
const LATE_MS = 5_000;

export interface ClientWatcherOptions {
  readonly client: KubeClient;
  readonly egress: NamespacedName;
  /** Called on each change; must only take note. */
  readonly onChange: (change: ClientPodChange) => void;
  /** How long the clients of a slice stay that was deleted with them. Default 30 s. */
  readonly lostMs?: number | undefined;
}

/** Follows the EgressClientSlices of an Egress, in which coil-controller says which pods are its clients. */
export class ClientWatcher implements Disposable {
  readonly #options: ClientWatcherOptions;
  readonly #clients: SliceClients;
  /** Who waits for which pod, by UID. */
  readonly #waiting = new Map<string, Set<() => void>>();

  constructor(options: ClientWatcherOptions) {
    this.#options = options;
    this.#clients = new SliceClients({
      lostMs: options.lostMs ?? LOST_MS,
      onChange: (change) => this.#note(change),
    });
  }

  /** The Egress whose clients are followed. */
  get egress(): NamespacedName {
    return this.#options.egress;
  }

  /** The clients, by UID. */
  get pods(): ReadonlyMap<string, ClientPod> {
    return this.#clients.pods;
  }

  /** Waits up to `ms` milliseconds for a pod to become a client; undefined when it does not. */
  async find(
    uid: string,
    { ms, signal }: { readonly ms: number; readonly signal: AbortSignal },
  ): Promise<ClientPod | undefined> {
    if (this.pods.has(uid)) return this.pods.get(uid);
    const { promise, resolve } = Promise.withResolvers<void>();
    const waiting = this.#waiting.getOrInsertComputed(uid, () => new Set());
    waiting.add(resolve);
    try {
      await withTimeout(ms, (s) => abortable(promise, s), { signal });
    } catch {
      signal.throwIfAborted();
    } finally {
      waiting.delete(resolve);
      if (waiting.size === 0) this.#waiting.delete(uid);
    }
    return this.pods.get(uid);
  }

  /**
   * Follows the clients until the signal; `onSynced` is called when all have
   * been reported once. While there is no first slice it is not known who they
   * are: a coil-controller that writes no slices may have any number of them.
   */
  async run(signal: AbortSignal, onSynced: () => void): Promise<void> {
    const { client, egress: { namespace, name } } = this.#options;
    const slice = `${namespace}/${clientSliceName(name, FIRST_SLICE)}`;
    const isComplete = new Gate();
    const informer = new Informer(client, EGRESS_CLIENT_SLICES, {
      namespace,
      labelSelector: clientSliceSelector(name),
      onChange: ({ type, key, object }) => {
        if (type === "deleted") return this.#clients.delete(key);
        this.#clients.set(key, object);
        if (key === slice) isComplete.open();
      },
    });
    const notifySynced = async () => {
      await abortable(informer.synced, signal);
      await untilOpen(isComplete, { slice, signal });
      onSynced();
    };
    await Promise.all([informer.run(signal), notifySynced()]);
  }

  #note(change: ClientPodChange): void {
    this.#options.onChange(change);
    if (change.pod === undefined) return;
    for (const resolve of this.#waiting.get(change.uid) ?? []) resolve();
  }

  /** Stops the timers. */
  [Symbol.dispose](): void {
    this.#clients[Symbol.dispose]();
  }
}

async function untilOpen(
  gate: Gate,
  { slice, signal }: { readonly slice: string; readonly signal: AbortSignal },
): Promise<void> {
  await gate.waitAtMost(LATE_MS, { signal });
  if (gate.isOpen) return;
  log.warn(
    "Waiting for the EgressClientSlices of the Egress; coil-controller writes them, unless it is older than this gateway",
    { slice },
  );
  await gate.wait({ signal });
}
