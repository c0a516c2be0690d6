import { messageOf } from "../errors/mod.ts";
import { formatDuration, parseDurationMs } from "./duration.ts";
import { parseInteger } from "./integer.ts";
import {
  defaultOf,
  type DurationFlag,
  type Flag,
  type FlagSpec,
  type FlagValues,
} from "./spec.ts";
import { usage } from "./usage.ts";
import { printAll } from "./print_all.ts";

/** The command line cannot be understood. Its message is the reason alone. */
export class UsageError extends Error {
  /** The name of the class. */
  override readonly name = "UsageError";
}

/** A program's name, version and description. */
export interface ProgramInfo {
  /** The name it was started as. */
  readonly program: string;
  /** What `--version` prints after the name. */
  readonly version: string;
  /** What it is, in a sentence. */
  readonly about: string;
  /** What stands after the flags in usage, e.g. "NAME". Without it positional arguments are refused. */
  readonly positionals?: string;
}

/** An understood command line. */
export interface ParsedFlags<S extends FlagSpec> {
  /** The value of each flag, given or not. */
  readonly values: FlagValues<S>;
  /** The arguments that are not flags. */
  readonly positionals: readonly string[];
  /** The names of the flags that were given. */
  readonly given: ReadonlySet<string>;
}

/** A parsed command line. */
export type CommandLine<S extends FlagSpec> =
  | ({ readonly kind: "run" } & ParsedFlags<S>)
  | { readonly kind: "print"; readonly text: string };

/**
 * Reads a command line in the syntax of Go's pflag: `--name value`, `--name=value`, `--bool`, `--bool=false`, `--`.
 *
 * `--help`, `-h` and `--version` give the text to print.
 *
 * @throws {UsageError} when a flag is unknown or a value does not fit
 */
export function readCommandLine<const S extends FlagSpec>(
  spec: S,
  args: readonly string[],
  info: ProgramInfo,
): CommandLine<S> {
  const raw = new Map<string, unknown>();
  for (const [name, flag] of Object.entries(spec)) {
    raw.set(name, defaultOf(flag));
  }
  const given = new Set<string>();
  const positionals: string[] = [];
  const rest = [...args];
  for (let arg = rest.shift(); arg !== undefined; arg = rest.shift()) {
    if (arg === "--") {
      positionals.push(...rest.splice(0));
    } else if (arg === "-" || !arg.startsWith("-")) {
      positionals.push(arg);
    } else if (arg === "--help" || arg === "-h") {
      return { kind: "print", text: usage(spec, info) };
    } else if (arg === "--version") {
      return {
        kind: "print",
        text: `${info.program} version ${info.version}\n`,
      };
    } else {
      const { name, flag, inline } = findFlag(spec, arg);
      const text = inline ?? (flag.type === "bool" ? "true" : rest.shift());
      if (text === undefined) {
        throw new UsageError(`flag needs an argument: ${arg}`);
      }
      const value = parseValue(name, flag, text);
      const isMore = Array.isArray(value) && given.has(name);
      raw.set(name, isMore ? [...asList(raw.get(name)), ...value] : value);
      given.add(name);
    }
  }
  if (positionals.length > 0 && info.positionals === undefined) {
    throw new UsageError(`unexpected argument: ${positionals[0]}`);
  }
  return { kind: "run", values: parsedValues(raw), positionals, given };
}

/**
 * Reads a command line like {@linkcode readCommandLine}, and does what a program does with the other outcomes: prints
 * help or version and exits with 0, or ends as {@linkcode refuseCommandLine} does.
 */
export function parseFlags<const S extends FlagSpec>(
  spec: S,
  args: readonly string[],
  info: ProgramInfo,
): ParsedFlags<S> {
  const outcome = tryReadCommandLine(spec, args, info);
  if (outcome instanceof UsageError) {
    return refuseCommandLine(outcome.message, info);
  }
  if (outcome.kind === "print") {
    printAll(Deno.stdout, outcome.text);
    Deno.exit(0);
  }
  return outcome;
}

/** Prints what is wrong with the command line and where its help is, and exits with 1. */
export function refuseCommandLine(
  reason: string,
  { program }: Pick<ProgramInfo, "program">,
): never {
  return refuse(reason, { program, exitCode: 1 });
}

/** Does so for the command line of a task of `deno.json`, and exits with 2. */
export function refuseTask(task: string, error: unknown): never {
  const reason = messageOf(error);
  return refuse(reason, { program: `deno task ${task}`, exitCode: 2 });
}

function refuse(
  reason: string,
  { program, exitCode }: {
    readonly program: string;
    readonly exitCode: number;
  },
): never {
  printAll(Deno.stderr, `Error: ${reason}\nSee "${program} --help".\n`);
  Deno.exit(exitCode);
}

function tryReadCommandLine<S extends FlagSpec>(
  spec: S,
  args: readonly string[],
  info: ProgramInfo,
): CommandLine<S> | UsageError {
  try {
    return readCommandLine(spec, args, info);
  } catch (error) {
    if (error instanceof UsageError) return error;
    throw error;
  }
}

function findFlag(
  spec: FlagSpec,
  arg: string,
): { name: string; flag: Flag; inline: string | undefined } {
  const equals = arg.indexOf("=");
  const word = equals < 0 ? arg : arg.slice(0, equals);
  const inline = equals < 0 ? undefined : arg.slice(equals + 1);
  if (word.startsWith("--")) {
    const name = word.slice(2);
    const flag = Object.hasOwn(spec, name) ? spec[name] : undefined;
    if (flag === undefined) throw new UsageError(`unknown flag: ${word}`);
    return { name, flag, inline };
  }
  // pflag's short forms: -x value, -xvalue, -x=value.
  const letter = word.slice(1, 2);
  const found = Object.entries(spec).find(([, flag]) => flag.short === letter);
  if (found === undefined) {
    throw new UsageError(`unknown shorthand flag: ${arg}`);
  }
  const attached = word.length > 2 ? arg.slice(2).replace(/^=/, "") : inline;
  return { name: found[0], flag: found[1], inline: attached };
}

function parseValue(name: string, flag: Flag, text: string): unknown {
  const bad = (why: string) =>
    new UsageError(
      `invalid argument ${JSON.stringify(text)} for "--${name}": ${why}`,
    );
  switch (flag.type) {
    case "string": {
      const problem = flag.check?.(text);
      if (problem !== undefined) throw bad(problem);
      return text;
    }
    case "bool": {
      const value = BOOLS.get(text);
      if (value === undefined) throw bad("needs true or false");
      return value;
    }
    case "int": {
      const value = parseInteger(text);
      const { min = -Infinity, max = Infinity } = flag;
      if (value === undefined) throw bad("needs a whole number");
      if (!Number.isSafeInteger(value)) throw bad("is out of range");
      if (value < min || value > max) {
        throw bad(
          max === Infinity
            ? `needs at least ${min}`
            : `needs a number from ${min} to ${max}`,
        );
      }
      return value;
    }
    case "duration":
      return parseDurationFlag(flag, text, bad);
    case "stringList":
      return text === "" ? [] : text.split(",").map((part) => part.trim());
    case "enum":
      if (!flag.values.includes(text)) {
        throw bad(`needs one of ${flag.values.join(", ")}`);
      }
      return text;
  }
}

/** What Go's strconv.ParseBool takes. */
const BOOLS: ReadonlyMap<string, boolean> = new Map([
  ...["1", "t", "T", "true", "TRUE", "True"].map((word) =>
    [word, true] as const
  ),
  ...["0", "f", "F", "false", "FALSE", "False"].map((word) =>
    [word, false] as const
  ),
]);

function parseDurationFlag(
  { min = 0 }: DurationFlag,
  text: string,
  bad: (why: string) => UsageError,
): number {
  let valueMs: number;
  try {
    valueMs = parseDurationMs(text);
  } catch (error) {
    if (error instanceof SyntaxError) {
      throw bad('needs a duration like "10s" or "1h0m0s"');
    }
    throw error;
  }
  if (valueMs < min) throw bad(`needs at least ${formatDuration(min)}`);
  return valueMs;
}

function asList(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

/** The one place where the values, checked flag by flag above, get their static types. */
function parsedValues<S extends FlagSpec>(
  raw: ReadonlyMap<string, unknown>,
): FlagValues<S> {
  return Object.fromEntries(raw) as FlagValues<S>;
}
