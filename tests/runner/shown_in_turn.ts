/** Gets what a suite says. */
export type Show = (bytes: Uint8Array) => void;

/**
 * What suites say that run at the same time: that of the first one which has not ended is shown as it comes, that of
 * the others when those before them have ended.
 */
export class ShownInTurn {
  readonly #show: Show;
  /** Those that have not ended, or have not been shown; in order, with what waits. */
  readonly #waiting: Map<string, Uint8Array[]>;
  readonly #ended = new Set<string>();

  constructor(names: readonly string[], show: Show) {
    this.#show = show;
    this.#waiting = new Map(names.map((name) => [name, []]));
  }

  /** Whose words are shown as they come. */
  get current(): string | undefined {
    return this.#waiting.keys().next().value;
  }

  /** Takes what a suite says. */
  hear(name: string, bytes: Uint8Array): void {
    if (name === this.current) this.#show(bytes);
    else this.#waiting.get(name)?.push(bytes);
  }

  /** The suite says no more. */
  end(name: string): void {
    this.#ended.add(name);
    for (const [next, held] of this.#waiting) {
      for (const bytes of held.splice(0)) this.#show(bytes);
      if (!this.#ended.has(next)) return;
      this.#waiting.delete(next);
    }
  }
}
