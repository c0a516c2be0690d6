import type { EgressClientSlice } from "../../../lib/api/mod.ts";
import { startTimer } from "../../../lib/async/mod.ts";
import { type ClientPod, clientPodOf, isSameClient } from "./client_pod.ts";

/** What became of a client. */
export interface ClientChange {
  readonly uid: string;
  /** Undefined when it is no longer a client. */
  readonly pod: ClientPod | undefined;
}

export interface SliceClientsOptions {
  /** Is told of each change; must only take note. */
  readonly onChange: (change: ClientChange) => void;
  /** How long the clients of a slice stay that was deleted with them. */
  readonly lostMs: number;
}

interface Slice {
  readonly pods: ReadonlyMap<string, ClientPod>;
  /** Ends the time of one that was deleted. */
  readonly timer?: Disposable;
}

/**
 * The clients in the slices of an Egress. One is a client as long as a slice
 * has it: coil-controller writes a slice that gets a client before the one
 * that loses it, and empties a slice before it deletes it. One that is deleted
 * with clients in it was deleted by somebody else, and coil-controller writes
 * it again in a moment: until then they stay.
 */
export class SliceClients implements Disposable {
  readonly #options: SliceClientsOptions;
  /** By key; what was written last comes last. */
  readonly #slices = new Map<string, Slice>();
  readonly #pods = new Map<string, ClientPod>();

  constructor(options: SliceClientsOptions) {
    this.#options = options;
  }

  /** The clients, by UID. */
  get pods(): ReadonlyMap<string, ClientPod> {
    return this.#pods;
  }

  /** Takes in a slice as it is now. */
  set(key: string, { clients = [] }: EgressClientSlice): void {
    const pods = clients.map(clientPodOf);
    this.#replace(key, { pods: new Map(pods.map((pod) => [pod.uid, pod])) });
  }

  /** Takes note that a slice was deleted. */
  delete(key: string): void {
    const pods = this.#slices.get(key)?.pods;
    if (pods === undefined) return;
    if (pods.size === 0) return this.#replace(key, undefined);
    const timer = startTimer(this.#options.lostMs, () => {
      this.#replace(key, undefined);
    });
    this.#replace(key, { pods, timer });
  }

  #replace(key: string, slice: Slice | undefined): void {
    const before = this.#slices.get(key);
    before?.timer?.[Symbol.dispose]();
    this.#slices.delete(key);
    if (slice !== undefined) this.#slices.set(key, slice);
    const uids = new Set(before?.pods.keys());
    for (const uid of slice?.pods.keys() ?? []) uids.add(uid);
    for (const uid of uids) this.#settle(uid);
  }

  #settle(uid: string): void {
    let pod: ClientPod | undefined;
    for (const { pods } of this.#slices.values()) pod = pods.get(uid) ?? pod;
    if (isSameClient(pod, this.#pods.get(uid))) return;
    if (pod === undefined) this.#pods.delete(uid);
    else this.#pods.set(uid, pod);
    this.#options.onChange({ uid, pod });
  }

  /** Stops the timers. */
  [Symbol.dispose](): void {
    for (const { timer } of this.#slices.values()) timer?.[Symbol.dispose]();
  }
}
