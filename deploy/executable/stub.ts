import { Elf } from "./elf.ts";

const HERE = new URL(".", import.meta.url).pathname;

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

/** No C compiler, or one that refuses stub.c. */
export class CompilerError extends Error {
  override readonly name = "CompilerError";
}

/** Compiles stub.c with $CC, gcc or clang; returns its only segment. */
export async function compileStub(): Promise<Uint8Array> {
  const directory = await Deno.makeTempDir({ prefix: "coil-stub-" });
  try {
    const output = `${directory}/stub`;
    await compile(["-T", `${HERE}stub.ld`, `${HERE}stub.c`, "-o", output]);
    const stub = new Elf(await Deno.readFile(output));
    const [image] = stub.loads;
    if (image === undefined) throw new CompilerError("stub.c gave no code");
    const end = Number(image.offset + image.filesz);
    return stub.bytes.subarray(Number(image.offset), end);
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
}

async function compile(args: readonly string[]): Promise<void> {
  const chosen = Deno.env.get("CC");
  for (const compiler of chosen ? [chosen] : ["gcc", "clang"]) {
    try {
      const { success, stderr } = await new Deno.Command(compiler, {
        args: [...FLAGS, ...args],
        stdout: "null",
        stderr: "piped",
      }).output();
      if (success) return;
      throw new CompilerError(
        `Cannot compile stub.c: ${compiler} says\n${
          new TextDecoder().decode(stderr)
        }`,
      );
    } catch (error) {
      if (!(error instanceof Deno.errors.NotFound)) throw error;
    }
  }
  throw new CompilerError(
    "Cannot pack without a C compiler: install gcc (Debian: apt-get install gcc libc6-dev) or set CC",
  );
}
