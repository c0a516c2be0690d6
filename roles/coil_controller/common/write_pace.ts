import { BoundedMap, type Clock, systemClock } from "../../../lib/async/mod.ts";

/** The share of an interval that is random: what was written together is not written together again. */
const JITTER = 0.2;

/** More objects of a kind than any cluster has. */
const MAX_KEYS = 10_000;

/**
 * How often each object's status is written. Every node follows some of them,
 * so what only changes numbers waits until a while after the last write; other
 * changes are written at once.
 */
export class WritePace {
  readonly #intervalMs: number;
  readonly #clock: Clock;
  readonly #random: () => number;
  readonly #dueMs = new BoundedMap<string, number>(MAX_KEYS);

  /** `intervalMs` is the least time between two writes of numbers; `random` gives numbers from 0 to below 1. */
  constructor(
    { intervalMs, clock = systemClock, random = Math.random }: {
      readonly intervalMs: number;
      readonly clock?: Clock | undefined;
      readonly random?: (() => number) | undefined;
    },
  ) {
    this.#intervalMs = intervalMs;
    this.#clock = clock;
    this.#random = random;
  }

  /** How long the object's numbers have to wait, in ms; 0 when they may be written now. */
  waitMs(key: string): number {
    const dueMs = this.#dueMs.get(key) ?? -Infinity;
    return Math.max(0, dueMs - this.#clock.nowMs());
  }

  /** Takes note of a write. */
  wrote(key: string): void {
    const waitMs = this.#intervalMs * (1 + JITTER * this.#random());
    this.#dueMs.set(key, this.#clock.nowMs() + waitMs);
  }

  /** Forgets an object that is gone. */
  forget(key: string): void {
    this.#dueMs.delete(key);
  }
}
