/** More than there are sets of gateways on most nodes; some KiB each. */
const MAX_ENTRIES = 32;

/** What was made for the last clients, which is the same for many of them. */
export class Recent<T> {
  readonly #entries = new Map<string, T>();

  /** What was made for the key, or is made now. */
  of(key: string, make: () => T): T {
    const known = this.#entries.get(key);
    if (known !== undefined) return known;
    const made = make();
    if (this.#entries.size >= MAX_ENTRIES) this.#entries.clear();
    this.#entries.set(key, made);
    return made;
  }
}
