import { BoundedMap, type Clock, systemClock } from "../../../lib/async/mod.ts";

/** The share of an interval that is random: what was written together is not written together again. */
const JITTER = 0.2;

/** More objects of a kind than any cluster has. */
const MAX_KEYS = 10_000;

/** An object's numbers that are not written yet. */
interface Waiting {
  readonly what: string;
  /** Since when there have been any. */
  readonly sinceMs: number;
  /** When these became known. */
  readonly changedMs: number;
}

/**
 * How often each object's status is written. Every node follows some of them,
 * so what only changes numbers waits until a while after the last write, and
 * for the end of a burst: what nodes wait for comes first. Other changes are
 * written at once.
 */
export class WritePace {
  readonly #intervalMs: number;
  readonly #quietMs: number;
  readonly #clock: Clock;
  readonly #random: () => number;
  readonly #dueMs = new BoundedMap<string, number>(MAX_KEYS);
  readonly #waiting = new BoundedMap<string, Waiting>(MAX_KEYS);

  /**
   * `intervalMs` is the least time between two writes of numbers; for so long, too, numbers wait at most until none
   * of them has changed for `quietMs`. `random` gives numbers from 0 to below 1.
   */
  constructor(
    { intervalMs, quietMs = 0, clock = systemClock, random = Math.random }: {
      readonly intervalMs: number;
      readonly quietMs?: number | undefined;
      readonly clock?: Clock | undefined;
      readonly random?: (() => number) | undefined;
    },
  ) {
    this.#intervalMs = intervalMs;
    this.#quietMs = quietMs;
    this.#clock = clock;
    this.#random = random;
  }

  /** How long the object's numbers have to wait, in ms; 0 when they may be written now. `what` says which they are. */
  waitMs(key: string, what = ""): number {
    const nowMs = this.#clock.nowMs();
    const { sinceMs, changedMs } = this.#note(key, what, nowMs);
    const quietMs = Math.min(
      changedMs + this.#quietMs,
      sinceMs + this.#intervalMs,
    );
    const dueMs = Math.max(quietMs, this.#dueMs.get(key) ?? -Infinity);
    return Math.max(0, dueMs - nowMs);
  }

  #note(key: string, what: string, nowMs: number): Waiting {
    const known = this.#waiting.get(key);
    if (known?.what === what) return known;
    const { sinceMs = nowMs } = known ?? {};
    const waiting = { what, sinceMs, changedMs: nowMs };
    this.#waiting.set(key, waiting);
    return waiting;
  }

  /** Takes note of a write. */
  wrote(key: string): void {
    const waitMs = this.#intervalMs * (1 + JITTER * this.#random());
    this.#dueMs.set(key, this.#clock.nowMs() + waitMs);
    this.settled(key);
  }

  /** Takes note that an object has all its numbers: the next ones are a burst of their own. */
  settled(key: string): void {
    this.#waiting.delete(key);
  }

  /** Forgets an object that is gone. */
  forget(key: string): void {
    this.#dueMs.delete(key);
    this.settled(key);
  }
}
