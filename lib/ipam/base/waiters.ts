import { abortable } from "../../async/mod.ts";

/** Lets callers wait until something of a topic has changed. A wake-up reaches all who wait; none is stored. */
export class Waiters {
  readonly #waiting = new Set<{ topic: string; wake: () => void }>();

  /**
   * Waits for the next wake-up of a topic. The caller is on record before this returns, so it may check its condition
   * just before the call, in the same turn.
   */
  async wait(topic: string, signal: AbortSignal): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const waiter = { topic, wake: resolve };
    this.#waiting.add(waiter);
    try {
      await abortable(promise, signal);
    } finally {
      // mutate: only frees memory; it has ended.
      this.#waiting.delete(waiter);
    }
  }

  /** Wakes all who wait for a topic, in the order in which they came. */
  wake(topic: string): void {
    for (const waiter of this.#waiting) {
      if (waiter.topic === topic) waiter.wake();
    }
  }

  /** Wakes the waiters of all topics. */
  wakeAll(): void {
    for (const { wake } of this.#waiting) wake();
  }
}
