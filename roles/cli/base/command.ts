import {
  type FlagSpec,
  type ProgramInfo,
  readCommandLine,
  UsageError,
} from "../../../lib/flags/mod.ts";

/** Where a command writes to, and what it knows of the time. */
export interface Terminal {
  /** Takes what was asked for. */
  out(text: string): void;
  /** Takes messages beside the output. */
  err(text: string): void;
  now(): Date;
  /** Whether `out` is a screen that can be cleared; false if not said. */
  readonly isScreen?: boolean | undefined;
  /** Whether `out` shows colours; false if not said. */
  readonly colours?: boolean | undefined;
}

/** What a command is run with. */
export interface CommandContext {
  readonly terminal: Terminal;
  /** The executable's name. */
  readonly program: string;
  readonly args: readonly string[];
  /** Ends a command that goes on until then; none in a process that Ctrl-C ends. */
  readonly signal?: AbortSignal | undefined;
}

/** One command of the executable. */
export interface Command {
  /** The words that call it, e.g. "ipam show". */
  readonly path: string;
  /** What it does, in a few words. */
  readonly about: string;
  readonly flags: FlagSpec;
  /** Arguments of the program that list what this command's argument may be, for completion. */
  readonly argumentListedBy?: string;
  /** Runs it and returns the exit code, 0 if none. @throws {UsageError} {@linkcode UsageError} when the arguments do not fit */
  run(context: CommandContext): Promise<number | void>;
}

/**
 * Reads the arguments of a command; undefined when they only asked for help,
 * which is printed then.
 *
 * @throws {UsageError} when they do not fit.
 */
export function readArguments<const S extends FlagSpec>(
  flags: S,
  { args, terminal }: CommandContext,
  info: ProgramInfo,
): Extract<ReturnType<typeof readCommandLine<S>>, { kind: "run" }> | undefined {
  const line = readCommandLine(flags, args, info);
  if (line.kind === "run") return line;
  terminal.out(line.text);
  return undefined;
}

/** @throws {UsageError} unless the argument is one of the words. */
export function oneOf<const W extends string>(
  word: string,
  words: readonly W[],
): W {
  const found = words.find((candidate) => candidate === word);
  if (found !== undefined) return found;
  throw new UsageError(`unknown argument "${word}": not ${words.join(", ")}`);
}
