/** Permission bits of installed programs. */
export const PROGRAM_MODE = 0o755;

/** A program to install: a file's contents, and what they are. */
export interface Program {
  readonly name: "executable" | "launcher";
  readonly sizeBytes: number;
  /** The contents, from their beginning. Each chunk is overwritten by the next. */
  readonly chunks: () => AsyncIterable<Uint8Array>;
}

const CHUNK_BYTES = 1 << 20;

/** The launcher with these contents. */
export function launcherProgram(contents: Uint8Array): Program {
  return {
    name: "launcher",
    sizeBytes: contents.length,
    chunks: async function* () {
      yield contents;
    },
  };
}

/** The executable that can be read at a path. */
export function executableProgram(
  path: string,
  { sizeBytes }: { readonly sizeBytes: number },
): Program {
  return {
    name: "executable",
    sizeBytes,
    chunks: () => chunksOf(path),
  };
}

/** A file, from its beginning. Each chunk is overwritten by the next. */
export async function* chunksOf(path: string): AsyncGenerator<Uint8Array> {
  using file = await Deno.open(path);
  const buffer = new Uint8Array(CHUNK_BYTES);
  for (;;) {
    const count = await file.read(buffer);
    if (count === null) return;
    yield buffer.subarray(0, count);
  }
}

/** The first bytes of a file, enough for {@linkcode machineOf}. */
export async function readStart(file: Deno.FsFile): Promise<Uint8Array> {
  const start = new Uint8Array(64);
  return start.subarray(0, await file.read(start) ?? 0);
}
