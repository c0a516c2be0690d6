/** The first pause; each further refusal doubles it. */
const FIRST_MS = 500;
/** As many nodes as an account serves in so long do not disturb each other. */
const LONGEST_MS = 60_000;

/**
 * How long calls of one kind pause because the account makes too many. All calls of the node share it: each refusal
 * doubles it, each success halves it. Its length is random from 0 to all of it, so that nodes that were refused
 * together do not come back together.
 */
export class Pause {
  readonly #random: () => number;
  #longestMs = 0;
  #beganMs = -Infinity;
  #endMs = -Infinity;

  /** `random` gives numbers from 0 to below 1. */
  constructor(random: () => number = Math.random) {
    this.#random = random;
  }

  /** How long it still lasts; 0 when there is none. */
  leftMs(nowMs: number): number {
    return Math.max(0, this.#endMs - nowMs);
  }

  /** A call that was sent at this time was refused. Calls sent before the pause began are not news. */
  refused(sentMs: number, nowMs: number): void {
    if (sentMs < this.#beganMs) return;
    this.#longestMs = Math.min(
      LONGEST_MS,
      Math.max(FIRST_MS, 2 * this.#longestMs),
    );
    this.#beganMs = nowMs;
    this.#endMs = nowMs + this.#random() * this.#longestMs;
  }

  /** A call was let through. */
  admitted(): void {
    this.#longestMs /= 2;
  }
}
