import type { FlatImage } from "../elf/flat.ts";
import { addFront } from "../elf/front.ts";
import { DAEMON_V8_FLAGS } from "../modules/v8_flags.ts";
import { isCached, readRuntime } from "./denort.ts";

/** `deno compile` failed. */
export class CompileError extends Error {
  override readonly name = "CompileError";
}

/** What to compile into. */
export interface CompileOptions {
  readonly output: string;
  /** Answers a runtime's calls before the rest starts. */
  readonly front?: FlatImage | undefined;
}

/** Compiles bundled modules into one file. */
export async function compile(
  entry: string,
  { output, front }: CompileOptions,
): Promise<void> {
  if (front === undefined) return await compileWith(entry, { output, env: {} });
  // deno appends to the runtime that it is given, so the front goes in before.
  const denort = `${output}.denort`;
  try {
    await Deno.writeFile(
      denort,
      addFront(await runtime(entry, output), front),
      {
        mode: 0o755,
      },
    );
    await compileWith(entry, { output, env: { DENORT_BIN: denort } });
  } finally {
    await Deno.remove(denort).catch(() => {});
  }
}

/** Denort's bytes; deno downloads it when it compiles for the first time. */
async function runtime(
  entry: string,
  output: string,
): Promise<Uint8Array<ArrayBuffer>> {
  const isAtHand = Deno.env.get("DENORT_BIN") || await isCached();
  if (!isAtHand) await compileWith(entry, { output, env: {} });
  return await readRuntime();
}

async function compileWith(
  entry: string,
  { output, env }: {
    readonly output: string;
    readonly env: Record<string, string>;
  },
): Promise<void> {
  const { success, stderr } = await new Deno.Command(Deno.execPath(), {
    args: [
      "compile",
      "--quiet",
      "--allow-all",
      "--no-check",
      "--no-config",
      "--unstable-lazy-dynamic-imports",
      DAEMON_V8_FLAGS,
      `--output=${output}`,
      entry,
    ],
    env,
    stdout: "null",
    stderr: "piped",
  }).output();
  if (success) return;
  throw new CompileError(
    `Cannot compile "${entry}": deno says\n${new TextDecoder().decode(stderr)}`,
  );
}
