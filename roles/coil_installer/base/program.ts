import type { Patch } from "./front.ts";

/** Permission bits of installed programs. */
export const PROGRAM_MODE = 0o755;

/** The program to install: a file's contents. */
export interface Program {
  readonly sizeBytes: number;
  /** The contents, from their beginning. Each chunk is overwritten by the next. */
  readonly chunks: () => AsyncIterable<Uint8Array>;
}

const CHUNK_BYTES = 1 << 20;

/** The executable that can be read at a path, with other bytes in one place if need be. */
export function executableProgram(
  path: string,
  { sizeBytes, patch }: {
    readonly sizeBytes: number;
    readonly patch?: Patch | undefined;
  },
): Program {
  return {
    sizeBytes,
    chunks: () =>
      patch === undefined ? chunksOf(path) : patched(chunksOf(path), patch),
  };
}

async function* patched(
  chunks: AsyncIterable<Uint8Array>,
  { at, bytes }: Patch,
): AsyncGenerator<Uint8Array> {
  let start = 0;
  for await (const chunk of chunks) {
    const from = Math.max(at, start);
    const to = Math.min(at + bytes.length, start + chunk.length);
    if (from < to) chunk.set(bytes.subarray(from - at, to - at), from - start);
    yield chunk;
    start += chunk.length;
  }
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
