import {
  clientSliceSelector,
  EGRESS_CLIENT_SLICES,
} from "../../../lib/api/mod.ts";
import { abortable, withTimeout } from "../../../lib/async/mod.ts";
import type { EgressRef } from "../../../lib/announce/mod.ts";
import { Informer, type KubeClient } from "../../../lib/kube/mod.ts";
import type { ClientPod } from "./client_pod.ts";
import { type ClientChange, SliceClients } from "./slice_clients.ts";

/** coil-controller writes a deleted slice again within a second, unless it is away. */
const LOST_MS = 30_000;

export interface ClientWatcherOptions {
  readonly client: KubeClient;
  readonly egress: EgressRef;
  /** Is told of each change; must only take note. */
  readonly onChange: (change: ClientChange) => void;
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
      lostMs: LOST_MS,
      onChange: (change) => this.#note(change),
    });
  }

  /** The Egress whose clients are followed. */
  get egress(): EgressRef {
    return this.#options.egress;
  }

  /** The clients, by UID. */
  get pods(): ReadonlyMap<string, ClientPod> {
    return this.#clients.pods;
  }

  /** Waits so long for a pod to become a client; undefined when it does not. */
  async find(
    uid: string,
    { ms, signal }: { readonly ms: number; readonly signal: AbortSignal },
  ): Promise<ClientPod | undefined> {
    if (this.pods.has(uid)) return this.pods.get(uid);
    const { promise, resolve } = Promise.withResolvers<void>();
    const waiting = this.#waiting.get(uid) ?? new Set();
    this.#waiting.set(uid, waiting.add(resolve));
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

  /** Follows the clients until the signal; `onSynced` is called when all have been reported once. */
  async run(signal: AbortSignal, onSynced: () => void): Promise<void> {
    const { client, egress: { namespace, name } } = this.#options;
    const informer = new Informer(client, EGRESS_CLIENT_SLICES, {
      namespace,
      labelSelector: clientSliceSelector(name),
      onChange: ({ type, key, object }) => {
        if (type === "deleted") this.#clients.delete(key);
        else this.#clients.set(key, object);
      },
    });
    const notifySynced = async () => {
      await abortable(informer.synced, signal);
      onSynced();
    };
    await Promise.all([informer.run(signal), notifySynced()]);
  }

  #note(change: ClientChange): void {
    this.#options.onChange(change);
    if (change.pod === undefined) return;
    for (const resolve of this.#waiting.get(change.uid) ?? []) resolve();
  }

  /** Stops the timers. */
  [Symbol.dispose](): void {
    this.#clients[Symbol.dispose]();
  }
}
