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
 * above it a child without room, so every operation touches one word per level for any size of the pool: the
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
   * Marks a position as used. Returns whether it was free.
   *
   * @throws {RangeError} when it is not an integer from 0 to 2^31-1
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

  /** Marks a position as free. Returns whether it was used. */
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

  /** The lowest free position from `from` on and below the limit, or undefined when there is none. */
  lowestFree(limit: number, from: number = 0): number | undefined {
    let start = from;
    for (const [depth, level] of this.#levels.entries()) {
      const parent = Math.floor(start / FAN_OUT);
      const free = ~(level.get(parent) ?? 0) & (FULL << (start % FAN_OUT));
      if (free !== 0) {
        const found = this.#leftmost(
          depth,
          parent * FAN_OUT + lowestBit(free),
        );
        return found < limit ? found : undefined;
      }
      start = parent + 1;
    }
    return undefined;
  }

  /** The lowest free position below a child that has room. */
  #leftmost(depth: number, child: number): number {
    let position = child;
    for (const level of this.#levels.slice(0, depth).toReversed()) {
      position = position * FAN_OUT + lowestBit(~(level.get(position) ?? 0));
    }
    return position;
  }

  /** Whether any position from `first` to `last` is used. */
  hasAny(first: number, last: number): boolean {
    if (first === last) return this.has(first);
    const words = this.#levels[0] ?? new Map<number, number>();
    const start = Math.floor(first / FAN_OUT);
    const end = Math.floor(last / FAN_OUT);
    const isUsed = (word: number): boolean => {
      const low = word === start ? FULL << (first % FAN_OUT) : FULL;
      const high = word === end
        ? FULL >>> (FAN_OUT - 1 - last % FAN_OUT)
        : FULL;
      return ((words.get(word) ?? 0) & low & high) !== 0;
    };
    if (end - start > words.size) {
      return words.keys().some((w) => w >= start && w <= end && isUsed(w));
    }
    for (let word = start; word <= end; word++) {
      if (isUsed(word)) return true;
    }
    return false;
  }

  /** All used positions, in no order that means anything. */
  *values(): Generator<number> {
    for (const [parent, word] of this.#levels[0] ?? []) {
      for (let rest = word; rest !== 0; rest &= rest - 1) {
        yield parent * FAN_OUT + lowestBit(rest);
      }
    }
  }
}

function bitOf(child: number): number {
  return 1 << (child % FAN_OUT);
}

function lowestBit(word: number): number {
  return 31 - Math.clz32(word & -word);
}
