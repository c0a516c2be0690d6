/** More peers than a server has at a time; the one that was seen first is forgotten. */
const MAX_PEERS = 4_096;

/** Allows each peer so much in a second on average, and twice that at once. */
export class PeerRates {
  readonly #perMs: number;
  readonly #burst: number;
  readonly #nowMs: () => number;
  readonly #allowances = new Map<string, { left: number; atMs: number }>();

  /** `nowMs` is a clock that only goes forward. */
  constructor(perSecond: number, nowMs: () => number) {
    this.#perMs = perSecond / 1_000;
    this.#burst = 2 * perSecond;
    this.#nowMs = nowMs;
  }

  /** Counts one; returns for how long, in ms, the peer is above its rate: mostly 0. */
  take(peer: string): number {
    const atMs = this.#nowMs();
    const known = this.#allowances.get(peer) ?? { left: this.#burst, atMs };
    const refilled = known.left + (atMs - known.atMs) * this.#perMs;
    // What a refused peer goes on to ask does not add to its time.
    const left = Math.max(-1, Math.min(this.#burst, refilled) - 1);
    this.#allowances.set(peer, { left, atMs });
    if (this.#allowances.size > MAX_PEERS) this.#forgetFirst();
    return left >= 0 ? 0 : -left / this.#perMs;
  }

  #forgetFirst(): void {
    const [first] = this.#allowances.keys();
    if (first !== undefined) this.#allowances.delete(first);
  }
}
