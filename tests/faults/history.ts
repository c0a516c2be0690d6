/** What was done lately, for the report of a failure. */
export class History {
  /** Steps begun so far. */
  steps = 0;
  readonly #lines: string[] = [];
  readonly #started = performance.now();
  readonly #counts = new Map<string, number>();

  /** Notes something; the first word is what is counted. */
  note(text: string): void {
    const at = (performance.timeOrigin + performance.now()).toFixed(0);
    this.#lines.push(`${at} #${this.steps} ${text}`);
    if (this.#lines.length > LENGTH) this.#lines.shift();
    const [kind = ""] = text.split(" ");
    this.#counts.set(kind, (this.#counts.get(kind) ?? 0) + 1);
  }

  /** The last notes, and before them those about what the message names. */
  about(message: string): string {
    const names = new Set(message.match(/\b(?:dual|single)-\d+(?:-\d+)?\b/g));
    const early = this.#lines.slice(0, -LAST).filter((line) =>
      [...names].some((name) => line.split(/[ ,]/).includes(name))
    );
    return [...early, ...this.#lines.slice(-LAST)].join("\n");
  }

  /** How often what was done. */
  get summary(): string {
    const seconds = (performance.now() - this.#started) / 1000;
    const counts = [...this.#counts].sort(([a], [b]) => a < b ? -1 : 1)
      .map(([kind, count]) => `${kind} ${count}`);
    return `${this.steps} steps in ${seconds.toFixed(0)} s: ${
      counts.join(", ")
    }`;
  }
}

/** Notes that are kept, and how many of them are shown regardless of what they are about. */
const LENGTH = 20_000;
const LAST = 150;
