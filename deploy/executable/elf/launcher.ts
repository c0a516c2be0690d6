import { compileC, compilerVersion } from "./compiler.ts";

const SOURCE = new URL("launcher.c", import.meta.url).pathname;

/**
 * Compiles launcher.c: a whole ELF file, which names no socket yet. Undefined
 * without a compiler: then runtimes call the whole executable, as they can.
 *
 * @throws {CompilerError} when the compiler refuses it
 */
export async function compileLauncher(): Promise<
  Uint8Array<ArrayBuffer> | undefined
> {
  if (await compilerVersion() === undefined) return undefined;
  return await compileC(SOURCE, ["-s", "-Wl,-z,noseparate-code"]);
}
