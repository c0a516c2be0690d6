import { isTimeout } from "../../../lib/async/mod.ts";
import { messageOf } from "../../../lib/errors/mod.ts";
import { VERSION } from "../../../lib/names/mod.ts";
import type { Archive } from "./archive.ts";
import { scrub } from "./clean.ts";
import type { Redactor } from "./redact.ts";
import { formatSummary, type Included, type Missing } from "./summary.ts";

export interface CollectionOptions {
  readonly archive: Pick<Archive, "add" | "finish">;
  /** Absent when names and addresses are kept. */
  readonly redactor: Redactor | undefined;
  /** Ends what is under way. */
  readonly signal: AbortSignal;
  readonly startedAt: Date;
}

/** Puts what was found into an archive, and notes what was not. */
export class Collection {
  readonly #options: CollectionOptions;
  readonly #files: Included[] = [];
  readonly #missing: Missing[] = [];
  readonly #notServed: string[] = [];

  constructor(options: CollectionOptions) {
    this.#options = options;
  }

  get missing(): readonly Missing[] {
    return this.#missing;
  }

  async add(path: string, text: string): Promise<void> {
    const { archive, redactor } = this.#options;
    // Objects were cleaned as such.
    const clean = path.endsWith(".json") ? text : scrub(text);
    const shown = redactor?.file(path, clean) ?? clean;
    const name = redactor?.text(path) ?? path;
    if (await archive.add(name, shown)) {
      this.#files.push({ path: name, chars: shown.length });
    } else this.miss(path, "the archive has no room for it (--max-bytes)");
  }

  /** A node that may be hostile can have said why: its text is shown in terminals. */
  miss(what: string, why: string): void {
    const { redactor } = this.#options;
    const shown = (text: string) => {
      const clean = scrub(text).replaceAll(/\p{Cc}/gu, " ");
      return redactor?.text(clean) ?? clean;
    };
    this.#missing.push({ what: shown(what), why: shown(why) });
  }

  /** The cluster does without these objects. */
  notServed(plural: string): void {
    this.#notServed.push(plural);
  }

  /** Undefined when it fails, which is noted. */
  async attempt<T>(
    what: string,
    read: () => Promise<T>,
  ): Promise<T | undefined> {
    const { signal } = this.#options;
    try {
      signal.throwIfAborted();
      return await read();
    } catch (error) {
      if (signal.aborted && !isTimeout(signal.reason)) throw signal.reason;
      this.miss(what, signal.aborted ? OUT_OF_TIME : messageOf(error));
      return undefined;
    }
  }

  async finish(endedAt: Date): Promise<void> {
    const { archive, redactor, startedAt } = this.#options;
    const summary = formatSummary({
      version: VERSION,
      startedAt,
      endedAt,
      isRedacted: redactor !== undefined,
      files: this.#files,
      missing: this.#missing,
      notServed: this.#notServed,
    });
    await archive.finish("SUMMARY.txt", summary);
  }
}

const OUT_OF_TIME = "there was no time left (--timeout)";
