import { startTimer } from "../../../lib/async/mod.ts";
import type { Address } from "../../../lib/inet/mod.ts";
import { nameText } from "../../../lib/names/mod.ts";
import { getLogger } from "../../../lib/telemetry/mod.ts";
import { type ClientPod, hasAll } from "./client_pod.ts";
import type { ClientSet } from "./client_set.ts";

const log = getLogger("announce");

/** Far more pods than can go while the API server answers about one. */
const MAX_GONE = 1_024;

export interface AnnouncedClientsOptions {
  readonly clients: Pick<ClientSet, "claim" | "hasStatus">;
  /** How long an announced address is served without a status that has it. */
  readonly confirmMs: number;
  /** Whether the controller cannot confirm now, so that addresses stay for as long again. */
  readonly isConfirmerAway: () => Promise<boolean>;
  /** Called when an address is no longer served; nothing waits for its removal. */
  readonly onExpired: () => void;
}

interface Entry {
  readonly timer: Disposable;
  readonly pod: string;
  readonly addresses: readonly Address[];
  /** What the status had when the announcement came: it knew nothing of it. */
  readonly statusThen: string;
}

/**
 * Addresses that were announced and that no status has yet. The status
 * decides: one that has them makes the announcement superfluous, one that
 * came later and has others ends it, and without any it ends by itself.
 */
export class AnnouncedClients implements Disposable {
  readonly #options: AnnouncedClientsOptions;
  readonly #entries = new Map<string, Entry>();
  /** UIDs of pods of which the watch said last that they are not clients, the oldest first. */
  readonly #gone = new Set<string>();

  constructor(options: AnnouncedClientsOptions) {
    this.#options = options;
  }

  /** How many pods have announced addresses. */
  get size(): number {
    return this.#entries.size;
  }

  /**
   * Serves a pod's addresses from now on, until its status decides. False for
   * a pod that went, or ceased to be a client, while its announcement was being
   * checked: only the time limit would end that.
   */
  add(pod: ClientPod, addresses: readonly Address[]): boolean {
    const { clients } = this.#options;
    const { uid } = pod;
    if (this.#gone.has(uid)) return false;
    this.#entries.get(uid)?.timer[Symbol.dispose]();
    this.#entries.delete(uid);
    // Not what the pod itself says: its status may be newer than what is served by it.
    if (clients.hasStatus(uid, addresses)) {
      this.#end(uid);
      return true;
    }
    this.#await(uid, {
      addresses,
      statusThen: textOf(pod.addresses),
      pod: nameText(pod),
    });
    clients.claim(uid, { source: "announced", addresses });
    return true;
  }

  /** Takes note of a pod's status. */
  noteStatus(pod: ClientPod): void {
    this.#gone.delete(pod.uid);
    const entry = this.#entries.get(pod.uid);
    if (entry === undefined || pod.addresses.length === 0) return;
    const isOther = textOf(pod.addresses) !== entry.statusThen;
    if (!isOther && !hasAll(pod, entry.addresses)) return;
    if (!hasAll(pod, entry.addresses)) {
      log.warn("The status of a pod has other addresses than were announced", {
        pod: entry.pod,
        announced: entry.addresses,
        addresses: pod.addresses,
      });
    }
    this.#end(pod.uid);
  }

  /** Forgets a pod that is gone, or no longer a client. */
  forget(uid: string): void {
    this.#gone.add(uid);
    for (const oldest of this.#gone) {
      if (this.#gone.size <= MAX_GONE) break;
      this.#gone.delete(oldest);
    }
    this.#end(uid);
  }

  /** Stops the timers. */
  [Symbol.dispose](): void {
    for (const { timer } of this.#entries.values()) timer[Symbol.dispose]();
    this.#entries.clear();
  }

  #await(uid: string, entry: Omit<Entry, "timer">): void {
    const { confirmMs } = this.#options;
    const timer = startTimer(confirmMs, () => void this.#expire(uid));
    this.#entries.set(uid, { ...entry, timer });
  }

  async #expire(uid: string): Promise<void> {
    const entry = this.#entries.get(uid);
    if (entry === undefined) return;
    const { isConfirmerAway, onExpired } = this.#options;
    // Without an answer of the API server no status can confirm it either.
    const isAway = await isConfirmerAway().catch(() => true);
    if (this.#entries.get(uid) !== entry) return;
    if (isAway) return this.#await(uid, entry);
    log.warn("No pod status confirmed an announced client; removed it", {
      pod: entry.pod,
      announced: entry.addresses,
    });
    this.#end(uid);
    onExpired();
  }

  #end(uid: string): void {
    this.#entries.get(uid)?.timer[Symbol.dispose]();
    this.#entries.delete(uid);
    this.#options.clients.claim(uid, { source: "announced", addresses: [] });
  }
}

function textOf(addresses: readonly Address[]): string {
  return addresses.map(String).sort().join();
}
