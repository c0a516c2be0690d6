import { abortable, sleep } from "../time/sleep.ts";

export interface CoalescedRunnerOptions {
  /** The least time from the end of one run to the start of the next. Default 0. */
  readonly minIntervalMs?: number;
}

/**
 * Runs one function whenever it is triggered, never twice at once: triggers that come before or during a run lead
 * to exactly one run after it.
 */
export class CoalescedRunner {
  readonly #fn: (signal: AbortSignal) => Promise<void>;
  readonly #minIntervalMs: number;
  #next: PromiseWithResolvers<void> = Promise.withResolvers();

  /** The function gets the signal of {@linkcode CoalescedRunner.run}. */
  constructor(
    fn: (signal: AbortSignal) => Promise<void>,
    options: CoalescedRunnerOptions = {},
  ) {
    this.#fn = fn;
    this.#minIntervalMs = options.minIntervalMs ?? 0;
  }

  /** Asks for a run that starts after this call. */
  trigger(): void {
    this.#next.resolve();
  }

  /** Serves triggers until the signal aborts, then returns. @throws the function's error, which ends it */
  async run(signal: AbortSignal): Promise<void> {
    try {
      while (!signal.aborted) {
        await abortable(this.#next.promise, signal);
        this.#next = Promise.withResolvers();
        await this.#fn(signal);
        if (this.#minIntervalMs > 0) {
          await sleep(this.#minIntervalMs, { signal });
        }
      }
    } catch (error) {
      // After the abort an error is the way in which the function, or a wait, stops.
      if (!signal.aborted) throw error;
    }
  }
}
