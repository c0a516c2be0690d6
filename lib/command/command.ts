import {
  type FlagSpec,
  type FlagValues,
  readCommandLine,
  UsageError,
} from "../flags/mod.ts";
import { VERSION } from "../names/mod.ts";
import type { Terminal } from "./terminal.ts";

/** What a command is called with. */
export interface CommandContext {
  /** Where it writes to, and who answers its questions. */
  readonly terminal: Terminal;
  /** The executable's name. */
  readonly program: string;
  /** What follows the words that call it. */
  readonly args: readonly string[];
  /** Ends a command that goes on until then; none in a process that Ctrl-C ends. */
  readonly signal?: AbortSignal | undefined;
}

/** One command of a program. */
export interface Command {
  /** The words that call it, e.g. "ipam show". */
  readonly path: string;
  /** What it does, in a few words. */
  readonly about: string;
  /** The flags it takes. */
  readonly flags: FlagSpec;
  /** Arguments of the program that list what this command's argument may be, for completion. */
  readonly argumentListedBy?: string;
  /** Runs it and returns the exit code, 0 if none. @throws {UsageError} {@linkcode UsageError} when the arguments do not fit */
  run(context: CommandContext): Promise<number | void>;
}

/** Context of a command, with its parsed arguments. */
export interface Call<S extends FlagSpec> extends CommandContext {
  /** The value of each flag, given or not. */
  readonly values: FlagValues<S>;
  /** The arguments that are not flags. */
  readonly positionals: readonly string[];
}

/**
 * Makes a command whose arguments are read before it runs. Of its help, and of an argument that does not fit, it does
 * not learn.
 */
export function defineCommand<const S extends FlagSpec>(
  { details, positionals = "", run, ...command }: Omit<Command, "run"> & {
    readonly flags: S;
    /** What its help says. */
    readonly details: string | ((program: string) => string);
    /** The form of its arguments, a word for each that there may be, e.g. "POOL". */
    readonly positionals?: string;
    run(call: Call<S>): Promise<number | void>;
  },
): Command {
  return {
    ...command,
    run: async (context) => {
      const { args, program, terminal } = context;
      const line = readCommandLine(command.flags, args, {
        program: `${program} ${command.path}`,
        version: VERSION,
        about: typeof details === "string" ? details : details(program),
        ...positionals !== "" && { positionals },
      });
      if (line.kind === "print") return terminal.out(line.text);
      const extra = line.positionals[positionals.split(" ").length];
      if (extra !== undefined) {
        throw new UsageError(`unexpected argument: ${extra}`);
      }
      return await run({ ...context, ...line });
    },
  };
}

/** @throws {UsageError} unless the argument is one of the words. */
export function oneOf<const W extends string>(
  word: string,
  words: readonly W[],
): W {
  const found = words.find((candidate) => candidate === word);
  if (found !== undefined) return found;
  const what = word === ""
    ? "an argument is missing"
    : `unknown argument "${word}"`;
  throw new UsageError(`${what}: needs one of ${words.join(", ")}`);
}
