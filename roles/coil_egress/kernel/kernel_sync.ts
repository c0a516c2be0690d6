import {
  abortable,
  Backoff,
  Gate,
  jittered,
  sleep,
} from "../../../lib/async/mod.ts";
import type { Address } from "../../../lib/inet/mod.ts";
import { getLogger } from "../../../lib/telemetry/mod.ts";
import type { DataPlane } from "../base/ports.ts";

const log = getLogger("egress-sync");

/** The first change is served at once; those that come in the meantime go together. */
const LEAST_PAUSE_MS = 10;

/** How often the kernel's state is repaired, also when no change was seen. */
const REPAIR_MS = 300_000;

export interface KernelSyncOptions {
  readonly kernel: Pick<DataPlane, "setClients" | "changeClients">;
  /** The addresses of the clients at this moment, by their text. */
  readonly wanted: () => ReadonlyMap<string, Address>;
  /** Called after each transaction. */
  readonly onSync?: (result: "ok" | "error") => void;
  /** The shortest and longest pause after a failure. Default 0.2 s and 10 s. */
  readonly retryMs?: { readonly initialMs: number; readonly maxMs: number };
  /** How often, about, the whole state is set although nothing changed. Default 5 min. */
  readonly repairMs?: number;
}

/**
 * Keeps the kernel's clients as they are wanted: the whole state at first, after
 * a failure and from time to time, which repairs all of the gateway; else what
 * changed. One transaction each. It never gives up.
 */
export class KernelSync {
  readonly #options: KernelSyncOptions;
  readonly #backoff: Backoff;
  #changed = new Gate();
  #waiting: PromiseWithResolvers<void>[] = [];
  /** What the kernel has; undefined when that is not known for sure. */
  #applied: ReadonlyMap<string, Address> | undefined;
  #hasSynced = false;
  #isFailing = false;
  #isDamaged = false;

  constructor(options: KernelSyncOptions) {
    this.#options = options;
    this.#backoff = new Backoff(
      options.retryMs ?? { initialMs: 200, maxMs: 10_000 },
    );
  }

  /** Whether the kernel has had the whole state once. */
  get hasSynced(): boolean {
    return this.#hasSynced;
  }

  /** Whether the last try failed, so that the kernel may have lost what makes it a gateway. */
  get isFailing(): boolean {
    return this.#isFailing;
  }

  /** Says that the desired state has changed. */
  trigger(): void {
    this.#changed.open();
  }

  /** Has the whole state set, which puts back what others removed. Resolves when that is done; rejects when it has failed, and will be tried again. */
  async repair(options: { readonly signal: AbortSignal }): Promise<void> {
    this.#isDamaged = true;
    await this.flushed(options);
  }

  /** Waits until the present desired state is in the kernel. Rejects when that has failed; it will be tried again. */
  async flushed(options: { readonly signal: AbortSignal }): Promise<void> {
    const waiter = Promise.withResolvers<void>();
    this.#waiting.push(waiter);
    this.trigger();
    await abortable(waiter.promise, options.signal);
  }

  /** Works until the signal. */
  async run(signal: AbortSignal): Promise<void> {
    try {
      while (!signal.aborted) {
        this.#changed = new Gate();
        const waiting = this.#waiting;
        this.#waiting = [];
        const failure = await this.#syncOnce();
        for (const { resolve, reject } of waiting) {
          if (failure === undefined) resolve();
          else reject(failure);
        }
        await this.#pause(failure !== undefined, signal);
      }
    } finally {
      const reason = new DOMException("The gateway stops", "AbortError");
      for (const { reject } of this.#waiting) reject(reason);
    }
  }

  /** Returns why it failed. */
  async #syncOnce(): Promise<Error | undefined> {
    const { wanted, onSync } = this.#options;
    const next = wanted();
    const before = this.#isDamaged ? undefined : this.#applied;
    this.#isDamaged = false;
    this.#applied = undefined;
    try {
      const isChange = await this.#apply(before, next);
      this.#applied = next;
      this.#hasSynced = true;
      this.#backoff.reset();
      if (this.#isFailing) log.info("The kernel has all clients again", {});
      this.#isFailing = false;
      if (isChange) onSync?.("ok");
      return undefined;
    } catch (err) {
      if (!this.#isFailing) {
        log.error("Cannot set the clients in the kernel; retrying", { err });
      }
      this.#isFailing = true;
      onSync?.("error");
      return err instanceof Error ? err : new Error(String(err));
    }
  }

  /** False when there was nothing to do. */
  async #apply(
    before: ReadonlyMap<string, Address> | undefined,
    next: ReadonlyMap<string, Address>,
  ): Promise<boolean> {
    const { kernel } = this.#options;
    if (before === undefined) {
      await kernel.setClients([...next.values()]);
      if (!this.#hasSynced) {
        log.info("Set the first clients", { addresses: next.size });
      }
      return true;
    }
    const add = without(next, before);
    const remove = without(before, next);
    if (add.length + remove.length === 0) return false;
    await kernel.changeClients({ add, remove });
    log.info("Changed clients", { add, remove, addresses: next.size });
    return true;
  }

  async #pause(hasFailed: boolean, signal: AbortSignal): Promise<void> {
    const leastMs = hasFailed ? this.#backoff.nextMs() : LEAST_PAUSE_MS;
    // Aborted or not: run() looks.
    await sleep(leastMs, { signal }).catch(() => {});
    if (hasFailed || signal.aborted) return;
    const { repairMs = REPAIR_MS } = this.#options;
    const waitMs = jittered(repairMs);
    await this.#changed.waitAtMost(waitMs, { signal }).catch(() => {});
    if (!this.#changed.isOpen) this.#applied = undefined;
  }
}

/** The addresses that the other does not have. */
function without(
  addresses: ReadonlyMap<string, Address>,
  other: ReadonlyMap<string, Address>,
): Address[] {
  const left: Address[] = [];
  for (const [text, address] of addresses) {
    if (!other.has(text)) left.push(address);
  }
  return left;
}
