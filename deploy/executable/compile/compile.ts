import { homedir } from "node:os";
import { DAEMON_V8_FLAGS } from "../modules/v8_flags.ts";

const DOWNLOADS = "https://dl.deno.land/";
const PROBE_MS = 3000;

/** `deno compile` failed. */
export class CompileError extends Error {
  override readonly name = "CompileError";
}

/**
 * How `deno compile` would come by its runtime, denort; undefined when it
 * would not. Asks the network, briefly, unless a copy is at hand.
 */
export async function findRuntime(): Promise<string | undefined> {
  const given = Deno.env.get("DENORT_BIN");
  if (given) return `denort from DENORT_BIN, ${given}`;
  const cached = cachedRuntime();
  if (await Deno.stat(cached).catch(() => undefined)) return `denort, cached`;
  try {
    await fetch(DOWNLOADS, {
      method: "HEAD",
      signal: AbortSignal.timeout(PROBE_MS),
    });
    return `denort, downloaded from ${DOWNLOADS}`;
  } catch {
    // Whatever the reason is, deno would fail for it, too.
    return undefined;
  }
}

/** Where deno keeps what it downloads for `deno compile`. */
function cachedRuntime(): string {
  const denoDir = Deno.env.get("DENO_DIR") ?? `${homedir()}/.cache/deno`;
  const { version: { deno }, build: { target } } = Deno;
  return `${denoDir}/dl/release/v${deno}/denort-${target}.zip`;
}

/** Compiles bundled modules into `output`. */
export async function compile(
  entry: string,
  options: { readonly output: string },
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
      `--output=${options.output}`,
      entry,
    ],
    stdout: "null",
    stderr: "piped",
  }).output();
  if (success) return;
  throw new CompileError(
    `Cannot compile "${entry}": deno says\n${new TextDecoder().decode(stderr)}`,
  );
}
