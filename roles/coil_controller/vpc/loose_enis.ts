/**
 * Knows how long ENIs have been without an instance, by looking: tags say only
 * when one was made, and a node may have detached it just now.
 */
export class LooseEnis {
  readonly #afterMs: number;
  #lookedAtMs = -Infinity;
  #sinceMs: ReadonlyMap<string, number> = new Map();

  /** `afterMs` is for how long an ENI must have been seen without an instance. */
  constructor({ afterMs }: { readonly afterMs: number }) {
    this.#afterMs = afterMs;
  }

  /**
   * Takes the IDs of those that have no instance now, and returns those that
   * had none in all looks of that time, of which there are two at least. After
   * as long without a look it begins again: what happened is not known.
   */
  look(ids: readonly string[], nowMs: number): string[] {
    const isBlind = nowMs - this.#lookedAtMs > this.#afterMs;
    const before = isBlind ? new Map<string, number>() : this.#sinceMs;
    const since = (id: string) => before.get(id) ?? nowMs;
    this.#lookedAtMs = nowMs;
    this.#sinceMs = new Map(ids.map((id) => [id, since(id)]));
    return ids.filter((id) =>
      before.has(id) && nowMs - since(id) >= this.#afterMs
    );
  }
}
