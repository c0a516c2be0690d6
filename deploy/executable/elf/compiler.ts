const FLAGS = [
  "-Os",
  "-Wall",
  "-Wextra",
  "-Werror",
  "-fPIE",
  "-fvisibility=hidden",
  "-ffreestanding",
  "-fno-builtin",
  "-fno-stack-protector",
  "-fno-jump-tables",
  "-fno-asynchronous-unwind-tables",
  "-nostdlib",
  "-static-pie",
  "-Wl,--build-id=none,--no-dynamic-linker",
];

/** No C compiler, or one that refuses a file. */
export class CompilerError extends Error {
  override readonly name = "CompilerError";
}

/** $CC, else those that are tried. */
function compilers(): readonly string[] {
  const chosen = Deno.env.get("CC");
  return chosen ? [chosen] : ["gcc", "clang"];
}

/** What the compiler in use says that it is; undefined without one. */
export async function compilerVersion(): Promise<string | undefined> {
  for (const compiler of compilers()) {
    const output = await run(compiler, ["--version"]);
    if (output?.success) return new TextDecoder().decode(output.stdout);
  }
  return undefined;
}

/**
 * Compiles a freestanding program into an ELF file.
 *
 * @throws {CompilerError} when there is no compiler, or it refuses
 */
export async function compileC(
  source: string,
  flags: readonly string[],
  { compiler }: { readonly compiler?: string } = {},
): Promise<Uint8Array<ArrayBuffer>> {
  const directory = await Deno.makeTempDir({ prefix: "coil-c-" });
  const output = `${directory}/output`;
  const args = [...FLAGS, ...flags, source, "-o", output];
  try {
    for (const name of compiler ? [compiler] : compilers()) {
      const result = await run(name, args);
      if (result?.success) return await Deno.readFile(output);
      if (result === undefined) continue;
      const said = new TextDecoder().decode(result.stderr);
      throw new CompilerError(
        `Cannot compile ${source}: ${name} says\n${said}`,
      );
    }
    throw new CompilerError(
      `Cannot compile ${source} without a C compiler: install gcc (Debian: apt-get install gcc libc6-dev) or set CC`,
    );
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
}

/** Undefined when there is no such program. */
async function run(
  program: string,
  args: readonly string[],
): Promise<Deno.CommandOutput | undefined> {
  try {
    return await new Deno.Command(program, { args: [...args] }).output();
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    throw error;
  }
}
