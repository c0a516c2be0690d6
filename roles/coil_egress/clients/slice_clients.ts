import type { EgressClientSlice } from "../../../lib/api/mod.ts";
import { startTimer } from "../../../lib/async/mod.ts";
import { distinct } from "../../../lib/inet/mod.ts";
import {
  type ClientPod,
  clientPodOf,
  hasAll,
  isSameClient,
} from "./client_pod.ts";

/** What became of a client. */
export interface ClientPodChange {
  readonly uid: string;
  /** Undefined when it is no longer a client. */
  readonly pod: ClientPod | undefined;
}

export interface SliceClientsOptions {
  /** Called on each change; must only take note. */
  readonly onChange: (change: ClientPodChange) => void;
  /** How long the clients of a slice stay that was deleted with them. */
  readonly lostMs: number;
}

/** A slice that was deleted, with its clients that no slice has had since. */
interface LostSlice {
  readonly pods: Map<string, ClientPod>;
  readonly timer: Disposable;
}

/**
 * The clients in the slices of an Egress. One is a client as long as a slice
 * has it: coil-controller writes a slice that gets a client before the one
 * that loses it, and empties a slice before it deletes it. One that is deleted
 * with clients in it was deleted by another program, and coil-controller writes
 * them again in a moment: each stays until a slice has it, with its addresses.
 */
export class SliceClients implements Disposable {
  readonly #options: SliceClientsOptions;
  readonly #slices = new Map<string, ReadonlyMap<string, ClientPod>>();
  readonly #lost = new Set<LostSlice>();
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
    const before = this.#slices.get(key)?.keys() ?? [];
    const pods = new Map(clients.map((c) => [c.uid, clientPodOf(c)]));
    this.#slices.set(key, pods);
    for (const pod of pods.values()) this.#endLost(pod);
    for (const uid of new Set([...before, ...pods.keys()])) this.#settle(uid);
  }

  /** Takes note that a slice was deleted. */
  delete(key: string): void {
    const pods = new Map(this.#slices.get(key));
    this.#slices.delete(key);
    if (pods.size === 0) return;
    const timer = startTimer(this.#options.lostMs, () => {
      this.#lost.delete(lost);
      for (const uid of pods.keys()) this.#settle(uid);
    });
    const lost = { pods, timer };
    this.#lost.add(lost);
  }

  #endLost(pod: ClientPod): void {
    for (const lost of this.#lost) {
      const { addresses = [] } = lost.pods.get(pod.uid) ?? {};
      if (hasAll(pod, addresses)) lost.pods.delete(pod.uid);
      if (lost.pods.size > 0) continue;
      lost.timer[Symbol.dispose]();
      this.#lost.delete(lost);
    }
  }

  #settle(uid: string): void {
    const pod = this.#find(uid);
    if (isSameClient(pod, this.#pods.get(uid))) return;
    if (pod === undefined) this.#pods.delete(uid);
    else this.#pods.set(uid, pod);
    this.#options.onChange({ uid, pod });
  }

  /** A client that moves has the addresses of both slices: the controller that wrote the newer one may have known fewer. */
  #find(uid: string): ClientPod | undefined {
    const lost = [...this.#lost].map(({ pods }) => pods);
    const found = [...this.#slices.values(), ...lost]
      .map((pods) => pods.get(uid)).filter((pod) => pod !== undefined);
    const [first, ...others] = found;
    if (first === undefined || others.length === 0) return first;
    const addresses = found.flatMap((pod) => pod.addresses);
    return { ...first, addresses: distinct(addresses) };
  }

  /** Stops the timers. */
  [Symbol.dispose](): void {
    for (const { timer } of this.#lost) timer[Symbol.dispose]();
  }
}
