import { messageOf } from "../../errors/mod.ts";

/** How many texts are remembered: they are few unless they carry numbers that change. */
const MAX_TEXTS = 100;

export interface RepeatFilterOptions {
  /** After so long a text passes again. Default 5 min. */
  readonly remindMs?: number;
  /** A clock that never goes back. Default `performance.now()`. */
  readonly now?: () => number;
}

/** Lets each text through once, and again as a reminder: for logs of what is tried again all the time. */
export class RepeatFilter {
  readonly #remindMs: number;
  readonly #now: () => number;
  readonly #passedAtMs = new Map<string, number>();

  constructor(options: RepeatFilterOptions = {}) {
    this.#remindMs = options.remindMs ?? 300_000;
    this.#now = options.now ?? (() => performance.now());
  }

  /** Whether this passes now. Errors go by their text. */
  passes(what: unknown): boolean {
    const text = messageOf(what);
    const now = this.#now();
    const passed = this.#passedAtMs.get(text);
    if (passed !== undefined && now - passed < this.#remindMs) return false;
    // The oldest first: a text that passes again goes to the end.
    this.#passedAtMs.delete(text);
    this.#passedAtMs.set(text, now);
    const [oldest] = this.#passedAtMs.keys();
    if (this.#passedAtMs.size > MAX_TEXTS && oldest !== undefined) {
      this.#passedAtMs.delete(oldest);
    }
    return true;
  }
}
