import { createHash } from "node:crypto";
import { replaceFile } from "./atomic_file.ts";
import { attempt, InstallError } from "./errors.ts";
import { machineOf } from "./machine.ts";
import { askVersions } from "./plugins.ts";
import { requireSpace } from "./space.ts";

/** Permission bits of installed programs. */
export const PROGRAM_MODE = 0o755;

/** A program to install: a file's contents, and what they are. */
export interface Program {
  readonly name: "executable" | "launcher";
  readonly sizeBytes: number;
  /** The contents, from their beginning. Each chunk is overwritten by the next. */
  readonly chunks: () => AsyncIterable<Uint8Array>;
}

/** How an installed program compares with the one to install. */
export type InstalledState =
  | { readonly kind: "absent" }
  | { readonly kind: "same"; readonly mode: number }
  | { readonly kind: "different"; readonly found: string };

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

/** Looks at what is installed. Symbolic links count as different: they are not followed. */
export async function compareInstalled(
  path: string,
  program: Program,
): Promise<InstalledState> {
  const info = await attempt(`look at "${path}"`, () => statIfThere(path));
  if (info === undefined) return { kind: "absent" };
  if (info.isDirectory) {
    throw new InstallError(
      `Cannot install "${path}": a directory is in its place; remove it`,
    );
  }
  if (!info.isFile) {
    return {
      kind: "different",
      found: info.isSymlink ? "symbolic link" : "special file",
    };
  }
  return await attempt(`read "${path}"`, async () => {
    using file = await Deno.open(path);
    const machine = machineOf(await readStart(file)) ?? "no Linux executable";
    const found = `${machine}, ${info.size} bytes`;
    if (info.size !== program.sizeBytes) return { kind: "different", found };
    return await digestOf(chunksOf(path)) === await digestOf(program.chunks())
      ? { kind: "same", mode: (info.mode ?? 0) & 0o7777 }
      : { kind: "different", found };
  });
}

/**
 * Writes a program. It takes its place when it is whole and has answered as a
 * plugin; until then the earlier one stays in use.
 */
export async function installProgram(
  program: Program,
  { path, signal }: { readonly path: string; readonly signal: AbortSignal },
): Promise<void> {
  const { name, sizeBytes } = program;
  const action = `copy the ${name} to "${path}"`;
  await requireSpace(path, { bytes: sizeBytes, action });
  await attempt(action, () =>
    replaceFile(path, {
      mode: PROGRAM_MODE,
      write: (target) => copyBytes(program, { target, signal }),
      beforeRename: async (temporary) => {
        if (await askVersions(temporary, signal) !== undefined) return;
        throw new InstallError(
          `Cannot ${action}: the copy does not run as a plugin here; is the file system mounted noexec, or the executable damaged?`,
        );
      },
    }));
}

async function copyBytes(
  { name, sizeBytes, chunks }: Program,
  { target, signal }: {
    readonly target: Deno.FsFile;
    readonly signal: AbortSignal;
  },
): Promise<void> {
  let copied = 0;
  for await (const chunk of chunks()) {
    signal.throwIfAborted();
    for (let rest = chunk; rest.length > 0;) {
      rest = rest.subarray(await target.write(rest));
    }
    copied += chunk.length;
  }
  if (copied === sizeBytes) return;
  throw new InstallError(
    `Cannot copy the ${name}: it had ${sizeBytes} bytes, and ${copied} while it was copied`,
  );
}

async function digestOf(chunks: AsyncIterable<Uint8Array>): Promise<string> {
  const hash = createHash("sha256");
  for await (const chunk of chunks) hash.update(chunk);
  return hash.digest("hex");
}

async function* chunksOf(path: string): AsyncGenerator<Uint8Array> {
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

async function statIfThere(path: string): Promise<Deno.FileInfo | undefined> {
  try {
    return await Deno.lstat(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    throw error;
  }
}
