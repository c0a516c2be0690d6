import { isLogged, type LogOptions } from "../../lib/coordinator/mod.ts";
import { describeError } from "../../lib/telemetry/base/mod.ts";

/** Upstream's; a node's disk is not ours to fill. */
const MAX_SIZE_MIB = 100;

type Fields = Readonly<Record<string, unknown>>;

export interface CallLogOptions extends LogOptions {
  /** What all records of the call have. */
  readonly fields: Fields;
  /** Default: standard error, which runtimes log. */
  readonly write?: (line: string) => void;
}

/**
 * Records of a call that coild does not serve: warnings to standard error;
 * these and how the call ended to its `logFile`, where there is one.
 */
export class CallLog {
  readonly #with: CallLogOptions;

  constructor(options: CallLogOptions) {
    this.#with = options;
  }

  /** Says what is odd. */
  warn(message: string, fields: Fields = {}): void {
    if (!isLogged("warn", this.#with)) return;
    this.#print(textOf(message, fields));
    this.#append("warn", message, fields);
  }

  /** Says that a call has ended, for the file alone: the runtime knows. */
  ended(error?: unknown): void {
    const level = error === undefined ? "info" : "warn";
    if (!isLogged(level, this.#with)) return;
    if (error === undefined) this.#append(level, "Finished call", {});
    else this.#append(level, "Call failed", { err: error });
  }

  #print(text: string): void {
    const write = this.#with.write ?? writeStderr;
    write(`coordinator: ${text}\n`);
  }

  #append(level: string, message: string, own: Fields): void {
    const { fields, file, maxSizeMib = MAX_SIZE_MIB } = this.#with;
    if (file === undefined) return;
    const text = textOf(message, { ...fields, ...own });
    const line = `${new Date().toISOString()} ${level} ${text}\n`;
    try {
      const directory = file.slice(0, file.lastIndexOf("/"));
      Deno.mkdirSync(directory, { recursive: true, mode: 0o755 });
      setAside(file, maxSizeMib * 1024 * 1024);
      Deno.writeTextFileSync(file, line, { append: true, mode: 0o600 });
    } catch (err) {
      this.#print(textOf("Cannot write the log file", { file, err }));
    }
  }
}

/** One former file is kept. */
function setAside(file: string, maxBytes: number): void {
  try {
    if (Deno.statSync(file).size < maxBytes) return;
    Deno.renameSync(file, `${file}.1`);
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
}

function textOf(message: string, fields: Fields): string {
  const words = Object.entries(fields)
    .filter(([, value]) => value !== undefined && value !== "")
    .map(([key, value]) =>
      `${key}=${value instanceof Error ? describeError(value) : value}`
    );
  return [message, ...words].join(" ");
}

function writeStderr(line: string): void {
  Deno.stderr.writeSync(new TextEncoder().encode(line));
}
