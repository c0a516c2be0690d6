/** A map that forgets what was set least recently when there is too much in it. */
export class BoundedMap<K, V> {
  readonly #max: number;
  readonly #entries = new Map<K, V>();

  /** Holds at most `max` entries. */
  constructor(max: number) {
    this.#max = max;
  }

  /** How many there are. */
  get size(): number {
    return this.#entries.size;
  }

  /** The value of a key; does not make it newer. */
  get(key: K): V | undefined {
    return this.#entries.get(key);
  }

  /** Makes this the newest entry. */
  set(key: K, value: V): void {
    this.#entries.delete(key);
    this.#entries.set(key, value);
    if (this.#entries.size <= this.#max) return;
    for (const oldest of this.#entries.keys()) {
      this.#entries.delete(oldest);
      return;
    }
  }

  delete(key: K): void {
    this.#entries.delete(key);
  }
}
