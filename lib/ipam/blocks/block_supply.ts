import { Backoff, type Clock } from "../../async/mod.ts";
import type { AddressTable } from "../table/address_table.ts";
import { Waiters } from "../base/waiters.ts";

interface Refusal {
  readonly error: Error;
  readonly until: number;
}

/** When the background may ask again after a failure, and how long it waits next time. */
interface Pause {
  readonly backoff: Backoff;
  until: number;
}

/**
 * Who waits for addresses of which pools, which requests for blocks are under way, and how the last ones ended.
 *
 * A wake-up only makes a waiter look again. Whether there is room, and who gets it, is decided by the table in one
 * synchronous step, so a wake-up cannot be lost and an answer that comes late serves those who wait by then.
 */
export class BlockSupply {
  /** The allocations that wait, by pool: those that are woken look again. */
  readonly waiters: Waiters = new Waiters();
  readonly #table: AddressTable;
  readonly #clock: Clock;
  /** How many allocations wait, by pool. One that was woken still counts until it has what it wants. */
  readonly #demand = new Map<string, number>();
  readonly #flights = new Set<string>();
  readonly #refusals = new Map<string, Refusal>();
  readonly #pauses = new Map<string, Pause>();
  readonly #failures = new Map<string, unknown>();

  constructor(table: AddressTable, clock: Clock) {
    this.#table = table;
    this.#clock = clock;
  }

  /** The pools for which an allocation waits, or a request is under way. */
  get pools(): string[] {
    return [...new Set([...this.#demand.keys(), ...this.#flights])];
  }

  /** Whether a request for the pool is under way. */
  isFlying(pool: string): boolean {
    return this.#flights.has(pool);
  }

  /** How many allocations of the pool wait. */
  waiting(pool: string): number {
    return this.#demand.get(pool) ?? 0;
  }

  /** Records that an allocation waits, until disposed. Its pool keeps its blocks in the meantime. */
  enter(pool: string): Disposable {
    this.#demand.set(pool, this.waiting(pool) + 1);
    return {
      [Symbol.dispose]: () => {
        const rest = this.waiting(pool) - 1;
        if (rest > 0) this.#demand.set(pool, rest);
        else this.#demand.delete(pool);
      },
    };
  }

  /** Why the last request for the pool failed, until one succeeds. */
  lastFailure(pool: string): unknown {
    return this.#failures.get(pool);
  }

  /** The refusal of the pool's last request while it is fresh, so that a storm of ADDs asks only once. */
  refusal(pool: string): Error | undefined {
    const refusal = this.#refusals.get(pool);
    const isFresh = refusal !== undefined &&
      refusal.until > this.#clock.nowMs();
    return isFresh ? refusal.error : undefined;
  }

  /** Forgets refusals: something about the pools has changed. */
  forgetRefusals(): void {
    this.#refusals.clear();
    for (const pause of this.#pauses.values()) pause.until = 0;
  }

  /** Whether those who wait get an address without a request. */
  isComing(pool: string): boolean {
    // Room that can be used in a moment is not a reason to ask for more, nor is an address that comes in a while a
    // reason to ask again after a refusal.
    if (this.#table.blocksOf(pool).free > 0) return true;
    return this.refusal(pool) !== undefined && this.#table.isOneComing(pool);
  }

  /** Until when, after a failure, the pool is not asked for a block that no call waits for. */
  pausedUntil(pool: string): number {
    return this.#pauses.get(pool)?.until ?? 0;
  }

  /** Takes note of a request that begins; false when one is under way. */
  begin(pool: string): boolean {
    if (this.#flights.has(pool)) return false;
    this.#flights.add(pool);
    return true;
  }

  /** Takes note of the end of a request, however it ended. */
  end(pool: string): void {
    this.#flights.delete(pool);
  }

  /** A request brought a block that can be used. */
  granted(pool: string): void {
    this.#failures.delete(pool);
    this.#pauses.delete(pool);
  }

  /** A request failed. Returns until when the background does not ask again. */
  failed(pool: string, err: unknown): number {
    this.#failures.set(pool, err);
    const pause = this.#pauses.get(pool) ?? {
      backoff: new Backoff({ initialMs: 2_000, maxMs: 120_000 }),
      until: 0,
    };
    pause.until = this.#clock.nowMs() + pause.backoff.nextMs();
    this.#pauses.set(pool, pause);
    return pause.until;
  }

  /** Lets an error answer further allocations for a time. */
  refuse(pool: string, error: Error, until: number): void {
    this.#refusals.set(pool, { error, until });
  }
}
