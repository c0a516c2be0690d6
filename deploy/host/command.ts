/** A command that ended with a failure; the message has what it wrote to stderr. */
export class CommandError extends Error {
  override readonly name = "CommandError";
  readonly code: number;
  readonly stderr: string;
  constructor(command: string, code: number, stderr: string) {
    super(`Cannot run "${command}": exit code ${code}: ${stderr.trim()}`);
    this.code = code;
    this.stderr = stderr;
  }
}

export interface RunOptions {
  /** Written to the command's stdin, which is empty otherwise. */
  stdin?: string;
  env?: Record<string, string>;
  cwd?: string;
  signal?: AbortSignal;
}

/**
 * Runs a command to its end and returns what it wrote to stdout.
 * @throws {CommandError} when it ends with another code than 0.
 */
export async function run(
  command: string,
  args: readonly string[],
  options: RunOptions = {},
): Promise<string> {
  const { stdin, ...rest } = options;
  const child = new Deno.Command(command, {
    ...rest,
    args: [...args],
    stdin: stdin === undefined ? "null" : "piped",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  if (stdin !== undefined) {
    const writer = child.stdin.getWriter();
    try {
      await writer.write(new TextEncoder().encode(stdin));
      await writer.close();
    } catch (err) {
      // The command may end without reading all; its exit code says whether it failed.
      if (!(err instanceof Deno.errors.BrokenPipe)) throw err;
    }
  }
  const output = await child.output();
  const decoder = new TextDecoder();
  if (!output.success) {
    const line = [command, ...args].join(" ");
    throw new CommandError(line, output.code, decoder.decode(output.stderr));
  }
  return decoder.decode(output.stdout);
}
