import { createHash } from "node:crypto";
import { replaceFile } from "./atomic_file.ts";
import { attempt, InstallError } from "./errors.ts";
import { machineOf } from "./machine.ts";
import { askVersions } from "./plugins.ts";
import { requireSpace } from "./space.ts";

/** The executable to install. */
export interface ExecutableSource {
  /** Where it can be read: `/proc/self/exe` for the running one, also when its file is gone. */
  readonly path: string;
  readonly sizeBytes: number;
}

/** How the installed executable compares with the one to install. */
export type InstalledState =
  | { readonly kind: "absent" }
  | { readonly kind: "same"; readonly mode: number }
  | { readonly kind: "different"; readonly found: string };

const CHUNK_BYTES = 1 << 20;

/** The file that this process runs from. */
const RUNNING = "/proc/self/exe";

/**
 * Finds the executable to install: the one at the path, or without a path the
 * running one.
 *
 * @throws {InstallError} when it would not run on this node
 */
export async function findSource(path: string): Promise<ExecutableSource> {
  if (path === "" && !isOneFile()) {
    throw new InstallError(
      "Cannot install the running program: it runs from source; build it (deno task build) and give the file with --coil-path",
    );
  }
  const source = path === "" ? RUNNING : path;
  return await attempt(`read the executable "${source}"`, async () => {
    using file = await Deno.open(source);
    const { isFile, size } = await file.stat();
    if (!isFile) {
      throw new InstallError(
        `Cannot install "${source}": it is not a regular file`,
      );
    }
    const machine = machineOf(await readStart(file));
    if (machine !== Deno.build.arch) {
      throw new InstallError(
        `Cannot install "${source}": it is ${
          machine ?? "no Linux executable"
        }, and this node needs ${Deno.build.arch}; use the image for this architecture`,
      );
    }
    return { path: source, sizeBytes: size };
  });
}

/** Looks at what is installed. Symbolic links count as different: they are not followed. */
export async function compareInstalled(
  path: string,
  source: ExecutableSource,
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
    if (info.size !== source.sizeBytes) return { kind: "different", found };
    return await digestOf(path) === await digestOf(source.path)
      ? { kind: "same", mode: (info.mode ?? 0) & 0o7777 }
      : { kind: "different", found };
  });
}

/**
 * Copies the executable. It takes its place when it is whole and has answered
 * as a plugin; until then the earlier one stays in use.
 */
export async function copyExecutable(
  source: ExecutableSource,
  { path, signal }: { readonly path: string; readonly signal: AbortSignal },
): Promise<void> {
  const action = `copy the executable to "${path}"`;
  await requireSpace(path, { bytes: source.sizeBytes, action });
  await attempt(action, () =>
    replaceFile(path, {
      mode: 0o755,
      write: (target) => copyBytes(source, { target, signal }),
      beforeRename: async (temporary) => {
        if (await askVersions(temporary, signal) !== undefined) return;
        throw new InstallError(
          `Cannot ${action}: the copy does not run as a plugin here; is the file system mounted noexec, or the executable damaged?`,
        );
      },
    }));
}

async function copyBytes(
  source: ExecutableSource,
  { target, signal }: {
    readonly target: Deno.FsFile;
    readonly signal: AbortSignal;
  },
): Promise<void> {
  let copied = 0;
  for await (const chunk of chunksOf(source.path)) {
    signal.throwIfAborted();
    for (let rest = chunk; rest.length > 0;) {
      rest = rest.subarray(await target.write(rest));
    }
    copied += chunk.length;
  }
  if (copied === source.sizeBytes) return;
  throw new InstallError(
    `Cannot copy "${source.path}": it had ${source.sizeBytes} bytes, and ${copied} while it was copied`,
  );
}

async function digestOf(path: string): Promise<string> {
  const hash = createHash("sha256");
  for await (const chunk of chunksOf(path)) hash.update(chunk);
  return hash.digest("hex");
}

/** The bytes of a file. Each chunk is overwritten by the next. */
async function* chunksOf(path: string): AsyncGenerator<Uint8Array> {
  using file = await Deno.open(path);
  const buffer = new Uint8Array(CHUNK_BYTES);
  for (;;) {
    const count = await file.read(buffer);
    if (count === null) return;
    yield buffer.subarray(0, count);
  }
}

async function readStart(file: Deno.FsFile): Promise<Uint8Array> {
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

/** Whether the process runs from one file that holds all of it: deploy/executable/README.md. */
function isOneFile(): boolean {
  return Deno.build.standalone || Deno.env.has("COIL_ARGV0");
}
