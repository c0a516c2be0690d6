import { Prefix } from "../../inet/mod.ts";
import { lowerBound } from "./sorted_set.ts";

interface Entry<T> {
  readonly prefix: Prefix;
  readonly value: T;
}

/** Values by prefix; finds those of an address, of a network and of all that is in it, without a walk over all. */
export class PrefixIndex<T> {
  /** By address, the shorter prefix first. */
  readonly #entries: Entry<T>[] = [];
  /** How many entries have a prefix of that length. */
  readonly #lengths = new Map<number, number>();

  add(prefix: Prefix, value: T): void {
    this.#entries.splice(this.#positionOf(prefix), 0, { prefix, value });
    this.#count(prefix.length, 1);
  }

  /** Does nothing when that is not there. */
  delete(prefix: Prefix, value: T): void {
    const at = this.#positionOf(prefix);
    const offset = this.#within(prefix, at, prefix.length)
      .findIndex((entry) => entry.value === value);
    if (offset < 0) return;
    this.#entries.splice(at + offset, 1);
    this.#count(prefix.length, -1);
  }

  /** The values of prefixes with an address of this one. */
  overlapping(prefix: Prefix): T[] {
    const wider = [...this.#lengths.keys()]
      .filter((length) => length < prefix.length)
      .map((length) => Prefix.of(prefix.address, length))
      .flatMap((around) =>
        this.#within(around, this.#positionOf(around), around.length)
      );
    const inner = this.#within(prefix, this.#positionOf(prefix));
    return [...wider, ...inner].map(({ value }) => value);
  }

  #positionOf(prefix: Prefix): number {
    return lowerBound(this.#entries, (e) => e.prefix.compare(prefix) < 0);
  }

  /** The entries of a network from its first one on, up to a length. */
  #within(prefix: Prefix, from: number, maxLength = Infinity): Entry<T>[] {
    const found: Entry<T>[] = [];
    for (let at = from;; at++) {
      const entry = this.#entries[at];
      if (entry === undefined || !prefix.contains(entry.prefix)) return found;
      if (entry.prefix.length > maxLength) return found;
      found.push(entry);
    }
  }

  #count(length: number, change: number): void {
    const count = (this.#lengths.get(length) ?? 0) + change;
    if (count > 0) this.#lengths.set(length, count);
    // mutate: only saves work.
    else this.#lengths.delete(length);
  }
}
