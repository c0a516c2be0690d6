import { BoundedMap, type Clock, systemClock } from "../../../lib/async/mod.ts";

/** More objects of a kind than any cluster has. */
const MAX_KEYS = 10_000;

/**
 * How often each object's status is written. Every node follows some of them,
 * so what only changes numbers waits until a while after the last write; what
 * somebody must know is written at once.
 */
export class WritePace {
  readonly #intervalMs: number;
  readonly #clock: Clock;
  readonly #writtenMs = new BoundedMap<string, number>(MAX_KEYS);

  /** `intervalMs` is the least time between two writes of numbers. */
  constructor(
    { intervalMs, clock = systemClock }: {
      readonly intervalMs: number;
      readonly clock?: Clock;
    },
  ) {
    this.#intervalMs = intervalMs;
    this.#clock = clock;
  }

  /** How long the object's numbers have to wait, in ms; 0 when they may be written now. */
  waitMs(key: string): number {
    const writtenMs = this.#writtenMs.get(key) ?? -Infinity;
    return Math.max(0, writtenMs + this.#intervalMs - this.#clock.nowMs());
  }

  /** Takes note of a write. */
  wrote(key: string): void {
    this.#writtenMs.set(key, this.#clock.nowMs());
  }

  /** Forgets an object that is gone. */
  forget(key: string): void {
    this.#writtenMs.delete(key);
  }
}
