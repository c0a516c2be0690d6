/**
 * A clock that stands still, for tests of whatever takes a clock.
 *
 * @module
 */
import type { Clock } from "./clock.ts";

/** A {@linkcode Clock} that stands still until it is turned. */
export class FakeClock implements Clock {
  #nowMs = 0;
  readonly #timers = new Set<{ dueMs: number; callback: () => void }>();

  nowMs(): number {
    return this.#nowMs;
  }

  after(ms: number, callback: () => void): Disposable {
    const timer = { dueMs: this.#nowMs + ms, callback };
    this.#timers.add(timer);
    return { [Symbol.dispose]: () => void this.#timers.delete(timer) };
  }

  /** How many timers wait. */
  get pending(): number {
    return this.#timers.size;
  }

  /** Lets time pass; timers fire in their order, and what they wake gets to run. */
  async advance(ms: number): Promise<void> {
    const endMs = this.#nowMs + ms;
    for (;;) {
      await settle();
      const [next] = [...this.#timers].filter((t) => t.dueMs <= endMs)
        .sort((a, b) => a.dueMs - b.dueMs);
      if (next === undefined) break;
      this.#timers.delete(next);
      this.#nowMs = Math.max(this.#nowMs, next.dueMs);
      next.callback();
    }
    this.#nowMs = endMs;
    await settle();
  }
}

/** Lets everything happen that needs no timer and no answer. */
export async function settle(turns: number = 60): Promise<void> {
  for (let i = 0; i < turns; i++) await Promise.resolve();
}
