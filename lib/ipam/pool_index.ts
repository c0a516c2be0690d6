/** Bits per word, and children per node of the tree. */
const FAN_OUT = 32;

/** 32^7 positions: more than an int32 can number. */
const LEVELS = 7;

/** All bits of a word, as the bitwise operators give it. */
const FULL = -1;

/**
 * Which positions of a pool are used, and which is the lowest that is not.
 *
 * A tree of 32-bit words of which only those with a bit set are stored. On the lowest level a bit is a used position,
 * above it a child without room, so every operation touches one word per level whatever the size of the pool: the
 * time is the same from a /24 to a /8. Memory grows with the used positions.
 */
export class PoolIndex {
  readonly #levels: Map<number, number>[] = Array.from(
    { length: LEVELS },
    () => new Map<number, number>(),
  );
  #size = 0;

  constructor(used: Iterable<number> = []) {
    for (const position of used) this.add(position);
  }

  /** Number of used positions. */
  get size(): number {
    return this.#size;
  }

  /** Whether a position is used. */
  has(position: number): boolean {
    const word = this.#levels[0]?.get(Math.floor(position / FAN_OUT)) ?? 0;
    return (word & bitOf(position)) !== 0;
  }

  /**
   * Marks a position as used. Tells whether it was not.
   *
   * @throws {RangeError} when it is no integer from 0 to 2^31-1
   */
  add(position: number): boolean {
    if (!Number.isInteger(position) || position < 0 || position >= 2 ** 31) {
      throw new RangeError(`Cannot use position ${position} of a pool`);
    }
    if (this.has(position)) return false;
    this.#size++;
    let child = position;
    for (const level of this.#levels) {
      const parent = Math.floor(child / FAN_OUT);
      const word = (level.get(parent) ?? 0) | bitOf(child);
      level.set(parent, word);
      if (word !== FULL) break;
      child = parent;
    }
    return true;
  }

  /** Marks a position as free. Tells whether it was used. */
  delete(position: number): boolean {
    if (!this.has(position)) return false;
    this.#size--;
    let child = position;
    for (const level of this.#levels) {
      const parent = Math.floor(child / FAN_OUT);
      const before = level.get(parent) ?? 0;
      const word = before & ~bitOf(child);
      if (word === 0) level.delete(parent);
      else level.set(parent, word);
      if (before !== FULL) break;
      child = parent;
    }
    return true;
  }

  /** The lowest free position below the limit, or undefined when there is none. */
  lowestFree(limit: number): number | undefined {
    let position = 0;
    for (const level of this.#levels.toReversed()) {
      const word = level.get(position) ?? 0;
      if (word === FULL) return undefined;
      position = position * FAN_OUT + lowestZeroBit(word);
    }
    return position < limit ? position : undefined;
  }
}

function bitOf(child: number): number {
  return 1 << (child % FAN_OUT);
}

function lowestZeroBit(word: number): number {
  const free = ~word;
  return 31 - Math.clz32(free & -free);
}
