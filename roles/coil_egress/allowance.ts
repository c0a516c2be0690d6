/** How often something may be done. */
export interface AllowanceOptions {
  /** So often at once. */
  readonly burst: number;
  /** And so often in a millisecond after that. */
  readonly perMs: number;
  /** A clock that only goes forward. */
  readonly nowMs: () => number;
}

/** A token bucket. */
export class Allowance {
  readonly #options: AllowanceOptions;
  #left: number;
  #atMs = -Infinity;

  constructor(options: AllowanceOptions) {
    this.#options = options;
    this.#left = options.burst;
  }

  /** Takes one; false when there is none. */
  take(): boolean {
    const { burst, perMs } = this.#options;
    const nowMs = this.#options.nowMs();
    const refilled = this.#left + (nowMs - this.#atMs) * perMs;
    const left = Math.min(burst, refilled) - 1;
    if (left < 0) return false;
    this.#left = left;
    this.#atMs = nowMs;
    return true;
  }
}
