export interface FairShareOptions {
  /** How much of the time frames and calls may take in the long run. */
  readonly share: number;
  /** What they may take at once. */
  readonly burstMs: number;
}

/** Of one connection: more than 400 calls at once. */
const OF_ONE: FairShareOptions = { share: 0.2, burstMs: 100 };

/** What a call takes beyond the reading of its frames: its record in the log, its counters, its answer. */
const CALL_MS = 0.25;

/**
 * Bounds the part of the processor that the frames of a connection take, or those of all, so that others are served,
 * however fast these send. A connection that is ahead of its share is not read from for a while.
 */
export class FairShare {
  readonly #nowMs: () => number;
  readonly #options: FairShareOptions;
  #leftMs: number;
  #sinceMs: number;

  /** `nowMs` is a clock that only goes forward. */
  constructor(nowMs: () => number, options: FairShareOptions = OF_ONE) {
    this.#nowMs = nowMs;
    this.#options = options;
    this.#leftMs = options.burstMs;
    this.#sinceMs = nowMs();
  }

  /** Counts a call that has begun. */
  addCall(): void {
    this.#leftMs -= CALL_MS;
  }

  /** Runs and counts some work. */
  measure(work: () => void): void {
    this.#earn();
    work();
    this.#leftMs -= this.#nowMs() - this.#sinceMs;
  }

  /** For how long, in ms, no more is to be done: mostly 0. */
  get pauseMs(): number {
    this.#earn();
    return this.#leftMs >= 0 ? 0 : -this.#leftMs / this.#options.share;
  }

  #earn(): void {
    const { share, burstMs } = this.#options;
    const nowMs = this.#nowMs();
    const earnedMs = (nowMs - this.#sinceMs) * share;
    this.#leftMs = Math.min(burstMs, this.#leftMs + earnedMs);
    this.#sinceMs = nowMs;
  }
}
