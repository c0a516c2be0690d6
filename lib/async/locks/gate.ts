import {
  abortable,
  type SleepOptions,
  type WaitOptions,
  withTimeout,
} from "../time/sleep.ts";

/** A door that opens once and stays open. */
export class Gate {
  readonly #opened: PromiseWithResolvers<void> = Promise.withResolvers();
  #isOpen = false;

  /** Whether it has been opened. */
  get isOpen(): boolean {
    return this.#isOpen;
  }

  /** Opens it for all who wait and will wait. Twice is harmless. */
  open(): void {
    this.#isOpen = true;
    this.#opened.resolve();
  }

  /** Waits until it is open. */
  wait(options: WaitOptions = {}): Promise<void> {
    return abortable(this.#opened.promise, options.signal);
  }

  /** Waits until it is open, or for that long. */
  async waitAtMost(ms: number, options: SleepOptions = {}): Promise<void> {
    try {
      await withTimeout(ms, (signal) => this.wait({ signal }), options);
    } catch {
      options.signal?.throwIfAborted(); // else the time is over
    }
  }
}
