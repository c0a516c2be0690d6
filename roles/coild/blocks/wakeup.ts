import { onAbort, startTimer } from "../../../lib/async/mod.ts";

/**
 * Lets one waiter sleep until something happens.
 *
 * A wake-up that comes while nobody waits is kept for the next wait, so none
 * is lost between looking and waiting.
 */
export class Wakeup {
  #pending = false;
  #resume: (() => void) | undefined;

  /** Ends the present wait, or else the next one at once. */
  wake(): void {
    this.#pending = true;
    this.#resume?.();
  }

  /**
   * Waits for a wake-up or the time limit.
   *
   * @throws the signal's reason when it aborts.
   */
  async wait(
    { signal, timeoutMs }: { signal: AbortSignal; timeoutMs: number },
  ): Promise<void> {
    signal.throwIfAborted();
    if (!this.#pending) {
      const { promise, resolve } = Promise.withResolvers<void>();
      this.#resume = resolve;
      using _timer = startTimer(timeoutMs, resolve);
      using _listening = onAbort(signal, resolve);
      try {
        await promise;
      } finally {
        this.#resume = undefined;
      }
    }
    this.#pending = false;
    signal.throwIfAborted();
  }
}
