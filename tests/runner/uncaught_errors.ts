import { stripVTControlCharacters } from "node:util";
import type { Failure } from "./junit.ts";

/** Lines of an error that are worth repeating: what it says, and where it was. */
const ERROR_LINES = 12;

/** What `deno test` says after each such error. */
const HINT = /^This error was not caught from a test/;

/**
 * Notes the errors that no test caught, from the text that `deno test` prints:
 * of a file that does not load, and of what failed beside the tests, which ends
 * all of its file's. The report has nothing of them.
 */
export class UncaughtErrors {
  readonly #lines = new Map<string, string[]>();
  /** Whose error is being read. */
  #current: string[] | undefined;

  /** Takes the next line, without its end; it may have colours. */
  line(text: string): void {
    const plain = stripVTControlCharacters(text);
    const [, file] = /^(\S+) \(uncaught error\)$/.exec(plain) ?? [];
    if (file !== undefined) {
      // The list at the end of the output names each a second time.
      this.#current = this.#lines.has(file) ? undefined : [];
      if (this.#current !== undefined) this.#lines.set(file, this.#current);
    } else if (plain.trim() === "" || HINT.test(plain)) {
      this.#current = undefined;
    } else if ((this.#current?.length ?? ERROR_LINES) < ERROR_LINES) {
      this.#current?.push(plain);
    }
  }

  get failures(): Failure[] {
    return [...this.#lines].map(([file, lines]) => ({
      name: `${file}: an error that no test caught`,
      lines,
    }));
  }
}
