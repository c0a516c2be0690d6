import { startTimer } from "../../../lib/async/mod.ts";

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
      const { promise, resolve: finish } = Promise.withResolvers<void>();
      const resolve = () => finish();
      this.#resume = resolve;
      using _timer = startTimer(timeoutMs, resolve);
      signal.addEventListener("abort", resolve);
      try {
        await promise;
      } finally {
        signal.removeEventListener("abort", resolve);
        this.#resume = undefined;
      }
    }
    this.#pending = false;
    signal.throwIfAborted();
  }
}
