import { BoundedMap } from "./bounded_map.ts";

/** How often something may be done. */
export interface Rate {
  /** How often at once. */
  readonly burst: number;
  /** How often in a second after that. */
  readonly perSecond: number;
}

export interface AllowanceOptions {
  /** A clock that only goes forward. Default: `performance.now()`. */
  readonly nowMs?: () => number;
}

/** A token bucket. */
export class Allowance {
  readonly #rate: Rate;
  readonly #nowMs: () => number;
  #left: number;
  #atMs: number;

  constructor(
    rate: Rate,
    { nowMs = () => performance.now() }: AllowanceOptions = {},
  ) {
    this.#rate = rate;
    this.#nowMs = nowMs;
    this.#left = rate.burst;
    this.#atMs = nowMs();
  }

  /** Whether there is one to take. */
  canTake(): boolean {
    return this.#leftAt(this.#nowMs()) >= 1;
  }

  /** Takes one; false when there is none, which costs nothing. */
  take(): boolean {
    const atMs = this.#nowMs();
    const left = this.#leftAt(atMs);
    if (left < 1) return false;
    this.#left = left - 1;
    this.#atMs = atMs;
    return true;
  }

  /** Takes one in any case; returns for how long, in ms, that was too early: mostly 0. Owes one at the most. */
  takeOrOwe(): number {
    const atMs = this.#nowMs();
    this.#left = Math.max(-1, this.#leftAt(atMs) - 1);
    this.#atMs = atMs;
    return Math.max(0, -this.#left * 1_000 / this.#rate.perSecond);
  }

  #leftAt(ms: number): number {
    const { burst, perSecond } = this.#rate;
    return Math.min(burst, this.#left + (ms - this.#atMs) * perSecond / 1_000);
  }
}

/** An allowance for each of many, e.g. by the peer's address. */
export class Allowances {
  readonly #rate: Rate;
  readonly #options: AllowanceOptions;
  readonly #each: BoundedMap<string, Allowance>;

  /** Above `max` the one that was used least recently is forgotten. */
  constructor(
    rate: Rate,
    { max, ...options }: AllowanceOptions & { readonly max: number },
  ) {
    this.#rate = rate;
    this.#options = options;
    this.#each = new BoundedMap(max);
  }

  /** The allowance of this key, full when it is new. */
  of(key: string): Allowance {
    const allowance = this.#each.get(key) ??
      new Allowance(this.#rate, this.#options);
    this.#each.set(key, allowance);
    return allowance;
  }
}
