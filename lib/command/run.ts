import { EXIT, UsageError } from "../flags/mod.ts";
import type { Command, CommandContext } from "./command.ts";
import { Interruption } from "./errors.ts";

/** A command of those that a program has, and its arguments. */
export interface FoundCommand {
  /** The command that the first words call. */
  readonly command: Command;
  /** What follows them. */
  readonly rest: readonly string[];
}

/** What programs with commands differ in. */
export interface CommandRunner {
  /** Finds the command that is called. @throws {UsageError} {@linkcode UsageError} when there is none */
  find(args: readonly string[]): FoundCommand;
  /** Which arguments show the help, for a command that was found or for none. */
  helpOf(command: Command | undefined): string;
  /** Says what went wrong and what to do. Undefined for an error in Coil itself, which is thrown on. */
  explain(error: unknown): string | undefined;
}

/** Runs one command and returns the exit code; what went wrong is on stderr then. */
export async function runCommand(
  args: readonly string[],
  context: Omit<CommandContext, "args">,
  { find, helpOf, explain }: CommandRunner,
): Promise<number> {
  const { program, terminal } = context;
  let found: FoundCommand | undefined;
  try {
    found = find(args);
    const { command, rest } = found;
    return await command.run({ ...context, args: rest }) ?? EXIT.ok;
  } catch (error) {
    if (error instanceof UsageError) {
      const help = `${program} ${helpOf(found?.command)}`;
      terminal.err(`Error: ${error.message}\nSee "${help}".\n`);
      return EXIT.usage;
    }
    if (error instanceof Interruption) {
      terminal.err(`\n${error.message}\n`);
      return EXIT.failed;
    }
    const text = explain(error);
    if (text === undefined) throw error;
    terminal.err(`Error: ${text}\n`);
    return EXIT.failed;
  }
}

/** A line for each command, for a program's help. */
export function commandList(
  program: string,
  commands: readonly Command[],
): string {
  const width = Math.max(...commands.map(({ path }) => path.length));
  return commands.map(({ path, about }) =>
    `  ${program} ${path.padEnd(width)}   ${about}`
  ).join("\n");
}
