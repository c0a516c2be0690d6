import {
  abortable,
  Backoff,
  type Clock,
  sleep,
  type TaskGroup,
  withTimeout,
} from "../../async/mod.ts";
import { getLogger } from "../../telemetry/mod.ts";
import { OutOfBlocksError, PoolNotFoundError } from "../base/errors.ts";
import type {
  BlockInfo,
  BlockSource,
  IpamObserver,
  RequestOutcome,
} from "../base/ports.ts";
import type { AddressTable } from "../table/address_table.ts";
import { Waiters } from "../base/waiters.ts";

const log = getLogger("node-ipam");

export interface BlockSupplyOptions {
  readonly table: AddressTable;
  readonly source: BlockSource;
  readonly clock: Clock;
  readonly tasks: TaskGroup;
  readonly observer: IpamObserver;
  /** Takes blocks into the table. */
  readonly adopt: (blocks: readonly BlockInfo[]) => readonly Adoption[];
  /** How many addresses of a pool are wanted now. */
  readonly wanted: (pool: string) => number;
  /** Lists blocks live. */
  readonly relist: (signal: AbortSignal) => Promise<unknown>;
  /** Whether a block of the pool is on its way back: then a refusal may be over in a moment. */
  readonly isReturning: (pool: string) => boolean;
  /** Called after each request, whatever its result. */
  readonly landed: (pool: string) => void;
  /** How long one request may take. */
  readonly requestMs: number;
}

/**
 * How far a block can be used: `usable` gives room; `stale` gives none, another request may (the answer was old, or the
 * block is being deleted, or it is known and full); `unusable` overlaps another block, and asking on would use up the
 * pool.
 */
export type Adoption = "usable" | "stale" | "unusable";

/** How long a refusal answers further allocations at once. */
const REFUSAL_MS = 1_000;

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
 * Asks for blocks: at most one request per pool at a time, which all who wait share and which none of them can cancel.
 *
 * A wake-up only makes a waiter look again. Whether there is room, and who gets it, is decided by the table in one
 * synchronous step, so a wake-up cannot be lost and an answer that comes late serves those who wait by then.
 */
export class BlockSupply {
  readonly #options: BlockSupplyOptions;
  readonly #waiters = new Waiters();
  /** How many allocations wait, by pool. One that was woken still counts until it has what it wants. */
  readonly #demand = new Map<string, number>();
  readonly #flights = new Set<string>();
  readonly #refusals = new Map<string, Refusal>();
  readonly #pauses = new Map<string, Pause>();
  readonly #failures = new Map<string, unknown>();

  constructor(options: BlockSupplyOptions) {
    this.#options = options;
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
      refusal.until > this.#options.clock.nowMs();
    return isFresh ? refusal.error : undefined;
  }

  /** Forgets refusals: something about the pools has changed. */
  forgetRefusals(): void {
    this.#refusals.clear();
    for (const pause of this.#pauses.values()) pause.until = 0;
  }

  /** Waits until there may be room in the pool, and requests a block for that. */
  async wait(pool: string, signal: AbortSignal): Promise<void> {
    const woken = this.#waiters.wait(pool, signal);
    if (!this.#isComing(pool)) this.start(pool);
    await woken;
  }

  #isComing(pool: string): boolean {
    const { table } = this.#options;
    // Room that can be used in a moment is not a reason to ask for more, nor is an address that comes in a while a
    // reason to ask again after a refusal.
    if (table.blocksOf(pool).free > 0) return true;
    return this.refusal(pool) !== undefined && table.isOneComing(pool);
  }

  /** Lets the allocations that wait for the pool look again. */
  wake(pool: string): void {
    this.#waiters.wake(pool);
  }

  /** Lets all waiting allocations look again. */
  wakeAll(): void {
    this.#waiters.wakeAll();
  }

  /** Until when, after a failure, the pool is not asked for a block that no call waits for. */
  pausedUntil(pool: string): number {
    return this.#pauses.get(pool)?.until ?? 0;
  }

  /** Asks for a block, unless a request is under way. */
  start(pool: string): void {
    if (this.#flights.has(pool) || this.#options.tasks.signal.aborted) return;
    this.#flights.add(pool);
    this.#options.tasks.run(
      "block request",
      (signal) => this.#fly(pool, signal),
    );
  }

  async #fly(pool: string, signal: AbortSignal): Promise<void> {
    const { clock, landed } = this.#options;
    const backoff = new Backoff({ initialMs: 100, maxMs: 3_000 });
    try {
      while (await this.#attempt(pool, signal) === "error") {
        if (this.waiting(pool) === 0) break;
        await sleep(backoff.nextMs(), { clock, signal });
        if (this.waiting(pool) === 0) break;
      }
    } finally {
      this.#flights.delete(pool);
      landed(pool);
      this.#waiters.wake(pool);
    }
  }

  async #attempt(pool: string, signal: AbortSignal): Promise<RequestOutcome> {
    const { clock, observer } = this.#options;
    const startedAt = clock.nowMs();
    let outcome: RequestOutcome;
    try {
      const blocks = await this.#request(pool, signal);
      outcome = await this.#accept(pool, blocks, signal);
    } catch (err) {
      if (signal.aborted) throw err;
      outcome = this.#refuse(pool, err);
    }
    const seconds = (clock.nowMs() - startedAt) / 1000;
    observer.blockRequested?.({ pool, outcome, seconds });
    return outcome;
  }

  /** Asks once. An answer that comes after the time was up is adopted all the same: no block may be lost. */
  async #request(
    pool: string,
    signal: AbortSignal,
  ): Promise<readonly BlockInfo[]> {
    const { source, clock, requestMs, tasks } = this.#options;
    const wanted = this.#options.wanted(pool);
    let answer: Promise<readonly BlockInfo[]> | undefined;
    try {
      return await withTimeout(requestMs, (inner) => {
        answer = source.request(pool, { signal: inner, wanted });
        return abortable(answer, inner);
      }, { clock, signal });
    } catch (err) {
      if (answer !== undefined) {
        const late = answer;
        tasks.run("late block", (end) => this.#adoptLate(late, end));
      }
      throw err;
    }
  }

  async #adoptLate(
    answer: Promise<readonly BlockInfo[]>,
    signal: AbortSignal,
  ): Promise<void> {
    let blocks: readonly BlockInfo[];
    try {
      blocks = await abortable(answer, signal);
    } catch {
      return; // the request ended without a block
    }
    this.#options.adopt(blocks);
  }

  async #accept(
    pool: string,
    blocks: readonly BlockInfo[],
    signal: AbortSignal,
  ): Promise<RequestOutcome> {
    const { adopt, relist } = this.#options;
    let adoptions = adopt(blocks);
    if (!adoptions.includes("usable") && adoptions.includes("unusable")) {
      // The block that one of them overlaps may be gone, unnoticed here.
      await abortable(relist(signal), signal);
      adoptions = adopt(blocks);
    }
    if (adoptions.includes("usable")) {
      this.#failures.delete(pool);
      this.#pauses.delete(pool);
      return "granted";
    }
    const names = blocks.map(({ name }) => name).join(", ");
    const adoption = adoptions.includes("unusable") ? "unusable" : "stale";
    const error = new OutOfBlocksError(
      pool,
      names === ""
        ? "no block was received"
        : `block "${names}" was received, but is ${adoption}`,
    );
    const until = this.#fail(pool, error);
    log.warn("Cannot use the block received", { pool, block: names });
    if (adoption === "unusable") this.#refusals.set(pool, { error, until });
    return adoption === "unusable" ? "unusable" : "error";
  }

  #refuse(pool: string, err: unknown): RequestOutcome {
    const { clock, isReturning } = this.#options;
    this.#fail(pool, err);
    const missing = err instanceof PoolNotFoundError;
    const isRefusal = missing ||
      (err instanceof OutOfBlocksError && !isReturning(pool));
    if (!isRefusal) {
      log.info("Cannot get a block", { pool, err });
      return "error";
    }
    this.#refusals.set(pool, { error: err, until: clock.nowMs() + REFUSAL_MS });
    if (this.waiting(pool) > 0) {
      log.warn("Failed to get a block", { pool, err });
    } else log.debug("Failed to get a block in advance", { pool, err });
    return missing ? "pool-not-found" : "out-of-blocks";
  }

  #fail(pool: string, err: unknown): number {
    this.#failures.set(pool, err);
    const pause = this.#pauses.get(pool) ?? {
      backoff: new Backoff({ initialMs: 2_000, maxMs: 120_000 }),
      until: 0,
    };
    pause.until = this.#options.clock.nowMs() +
      pause.backoff.nextMs();
    this.#pauses.set(pool, pause);
    return pause.until;
  }
}
