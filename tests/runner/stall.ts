import { type Clock, systemClock } from "../../lib/async/mod.ts";

/** How long a suite may run, and how long it may be silent. */
export interface StallLimits {
  readonly silentMs: number;
  readonly totalMs: number;
}

const MINUTE_MS = 60_000;

/** `churn`, the longest suite, takes 11 minutes; the longest silent step of a suite takes less than three. */
export const LIMITS: StallLimits = {
  silentMs: 20 * MINUTE_MS,
  totalMs: 60 * MINUTE_MS,
};

/** Aborts its signal when a suite prints nothing for too long, or takes too long; the reason says which. */
export class StallWatch implements Disposable {
  readonly #controller = new AbortController();
  readonly #clock: Clock;
  readonly #limits: StallLimits;
  readonly #total: Disposable;
  #silence: Disposable;

  constructor(
    { clock = systemClock, limits = LIMITS }: {
      readonly clock?: Clock | undefined;
      readonly limits?: StallLimits | undefined;
    } = {},
  ) {
    this.#clock = clock;
    this.#limits = limits;
    this.#total = this.#abortAfter(limits.totalMs, "took longer than");
    this.#silence = this.#expectOutput();
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Why the suite was ended; undefined when it was not. */
  get reason(): string | undefined {
    return this.signal.aborted ? this.signal.reason.message : undefined;
  }

  /** The suite printed something. */
  heard(): void {
    this.#silence[Symbol.dispose]();
    this.#silence = this.#expectOutput();
  }

  [Symbol.dispose](): void {
    this.#silence[Symbol.dispose]();
    this.#total[Symbol.dispose]();
  }

  #expectOutput(): Disposable {
    return this.#abortAfter(this.#limits.silentMs, "printed nothing for");
  }

  #abortAfter(ms: number, what: string): Disposable {
    return this.#clock.after(ms, () => {
      const text = `ended: it ${what} ${ms / MINUTE_MS} minutes`;
      this.#controller.abort(new Error(text));
    });
  }
}
