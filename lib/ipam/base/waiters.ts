import { abortable } from "../../async/mod.ts";

/** Lets callers wait until something of a topic has changed. A wake-up reaches all who wait; none is stored. */
export class Waiters {
  readonly #waiting = new Map<string, Set<() => void>>();

  /**
   * Waits for the next wake-up of a topic. The caller is on record before this returns, so it may check its condition
   * just before the call, in the same turn.
   */
  async wait(topic: string, signal: AbortSignal): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const waiting = this.#waiting.get(topic) ?? new Set();
    this.#waiting.set(topic, waiting.add(resolve));
    try {
      await abortable(promise, signal);
    } finally {
      waiting.delete(resolve);
      if (waiting.size === 0 && this.#waiting.get(topic) === waiting) {
        this.#waiting.delete(topic);
      }
    }
  }

  /** Wakes all who wait for a topic, in the order in which they came. */
  wake(topic: string): void {
    for (const resolve of this.#waiting.get(topic) ?? []) resolve();
  }

  /** Wakes everybody. */
  wakeAll(): void {
    for (const topic of this.#waiting.keys()) this.wake(topic);
  }
}
