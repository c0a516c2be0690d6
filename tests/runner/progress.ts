import { stripVTControlCharacters } from "node:util";

/** Whether the output is more than deno's notice, at 1, 2, 4 and so on minutes, that a test is slow. */
export function isProgress(output: string): boolean {
  const notice = /^'.*' has been running for over \(.*\)$/gm;
  return stripVTControlCharacters(output).replaceAll(notice, "").trim() !== "";
}

/** Reads from the output of `deno test` which tests are running; lines may have colours. */
export class Progress {
  /** The running test and its steps, outermost first; empty when files run in parallel. */
  readonly #running: string[] = [];
  /** The last test that ended, of each file. */
  readonly #last = new Map<string, string>();
  /** Of files that run one after the other, the current one. */
  #file = "";
  #isOutput = false;

  /** Reads a line, or the part of one that has been printed so far. */
  line(text: string): void {
    const plain = stripVTControlCharacters(text);
    if (/^-+ output -+$/.test(plain)) this.#isOutput = true;
    // The output's last line may have no end of its own.
    if (/-+ output end -+$/.test(plain)) this.#isOutput = false;
    if (this.#isOutput) return;
    this.#file = FILE.exec(plain)?.[1] ?? this.#file;
    const [, other, test = ""] = PARALLEL.exec(plain) ?? [];
    if (other !== undefined) this.#last.set(other, test);
    else this.#serial(plain);
  }

  #serial(plain: string): void {
    const [, indent = "", name, result] = SERIAL.exec(plain) ?? [];
    if (name === undefined) return;
    const depth = indent.length / 2;
    this.#running.splice(depth);
    if (result === undefined) this.#running.push(name);
    else if (depth === 0) this.#last.set(this.#file, name);
  }

  /** The running test, without its steps; none when files run in parallel. */
  get current(): readonly string[] {
    return this.#running.slice(0, 1).map((name) => `"${name}"`);
  }

  /** What was running, a line for each test. `files` are those that had not ended. */
  describe(files: readonly string[]): string[] {
    if (this.#running.length > 0) {
      const where = files.length === 0 ? "" : ` (${files.join(", ")})`;
      return [`running: ${this.#running.join(" > ")}${where}`];
    }
    return files.map((file) => {
      const last = this.#last.get(`./${file}`);
      const when = last === undefined
        ? "before its first result"
        : `after "${last}"`;
      return `running: ${file}, ${when}`;
    });
  }
}

const FILE = /^running \d+ tests? from (\S+)$/;
/** `  name ...`, and once more with its result. */
const SERIAL =
  /^((?: {2})*)(\S.*?) \.\.\.(?: (ok|FAILED|ignored|cancelled)\b.*)?$/;
/** A result in a file that runs beside others. */
const PARALLEL = /^(\.\/\S+) => (.*) \.\.\. (?:ok|FAILED|ignored|cancelled)\b/;
