/** How much of the time a connection's frames and calls may take in the long run. */
const SHARE = 0.2;

/** What a connection may take at once: more than 400 calls. */
const BURST_MS = 100;

/** What a call takes beyond the reading of its frames: its record in the log, its counters, its answer. */
const CALL_MS = 0.25;

/**
 * Bounds the part of the processor that the frames of one connection take, so that the others are served, however fast
 * this one sends. A connection that is ahead of its share is not read from for a while.
 */
export class FairShare {
  readonly #nowMs: () => number;
  #leftMs = BURST_MS;
  #sinceMs: number;

  /** `nowMs` is a clock that only goes forward. */
  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
    this.#sinceMs = nowMs();
  }

  /** Counts a call that has begun. */
  addCall(): void {
    this.#leftMs -= CALL_MS;
  }

  /** Runs and counts some work; returns for how long, in ms, no more is to be done: mostly 0. */
  measure(work: () => void): number {
    const startMs = this.#nowMs();
    const earnedMs = (startMs - this.#sinceMs) * SHARE;
    this.#leftMs = Math.min(BURST_MS, this.#leftMs + earnedMs);
    this.#sinceMs = startMs;
    work();
    this.#leftMs -= this.#nowMs() - startMs;
    return this.#leftMs >= 0 ? 0 : -this.#leftMs / SHARE;
  }
}
