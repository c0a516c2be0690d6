/**
 * Values in order, each once. The order must tell any two values apart, and must not change while they are in the set.
 */
export class SortedSet<T> {
  readonly #compare: (a: T, b: T) => number;
  readonly #values: T[] = [];

  constructor(compare: (a: T, b: T) => number) {
    this.#compare = compare;
  }

  /** The values, lowest first. */
  get values(): readonly T[] {
    return this.#values;
  }

  /** Puts a value in, or takes it out. Idempotent. */
  set(value: T, isMember: boolean): void {
    const at = lowerBound(this.#values, (v) => this.#compare(v, value) < 0);
    const found = this.#values[at];
    const isFound = found !== undefined && this.#compare(found, value) === 0;
    if (isMember && !isFound) this.#values.splice(at, 0, value);
    if (!isMember && isFound) this.#values.splice(at, 1);
  }
}

/** The position of the first value of a sorted list for which `isBefore` does not hold. */
export function lowerBound<T>(
  values: readonly T[],
  isBefore: (value: T) => boolean,
): number {
  let low = 0;
  let high = values.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    const value = values[middle];
    if (value !== undefined && isBefore(value)) low = middle + 1;
    else high = middle;
  }
  return low;
}
