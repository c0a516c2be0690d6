import { dirname } from "node:path";
import { codeOf } from "../../../lib/errors/mod.ts";

/** Files being written are called so until they are whole; no runtime reads them. */
const TEMPORARY_PREFIX = ".coil-installer-";

export interface ReplaceOptions {
  /** Permission bits, regardless of the umask. */
  readonly mode: number;
  /** Writes the contents. */
  readonly write: (file: Deno.FsFile) => Promise<void>;
  /** Checks the whole file before it takes its place; an error that it throws keeps the old one. */
  readonly beforeRename?: (temporary: string) => Promise<void>;
}

/**
 * Gives a path a new file: written beside it, flushed, renamed, the directory
 * flushed too. At every moment the path has the old file or the whole new one;
 * a symbolic link is replaced, not followed. After an error the old one stays.
 */
export async function replaceFile(
  path: string,
  { mode, write, beforeRename }: ReplaceOptions,
): Promise<void> {
  const temporary = temporaryBeside(path);
  await using undo = new AsyncDisposableStack();
  {
    using file = await Deno.open(temporary, {
      write: true,
      createNew: true,
      mode: 0o600,
    });
    undo.defer(() => removeQuietly(temporary));
    await write(file);
    await Deno.chmod(temporary, mode);
    await file.sync();
  }
  await beforeRename?.(temporary);
  await Deno.rename(temporary, path);
  undo.move();
  await syncDirectory(path);
}

/** Gives a path a symbolic link, in one step. */
export async function replaceByLink(
  path: string,
  { target }: { readonly target: string },
): Promise<void> {
  const temporary = temporaryBeside(path);
  await using undo = new AsyncDisposableStack();
  await Deno.symlink(target, temporary);
  undo.defer(() => removeQuietly(temporary));
  await Deno.rename(temporary, path);
  undo.move();
  await syncDirectory(path);
}

/** A path in the same directory, which the next run removes if this one does not. */
export function temporaryBeside(path: string): string {
  return `${dirname(path)}/${TEMPORARY_PREFIX}${crypto.randomUUID()}`;
}

/** Flushes the directory that a file is in, so that a rename outlives a power cut. */
export async function syncDirectory(path: string): Promise<void> {
  using directory = await Deno.open(dirname(path));
  try {
    await directory.sync();
  } catch (error) {
    // Some network file systems have no such thing for directories.
    if (codeOf(error) !== "EINVAL") throw error;
  }
}

/** Removes what interrupted runs left in a directory, and returns the paths. Only for the holder of its lock. */
export async function removeLeftovers(directory: string): Promise<string[]> {
  const removed: string[] = [];
  for await (const { name, isDirectory } of Deno.readDir(directory)) {
    if (isDirectory || !name.startsWith(TEMPORARY_PREFIX)) continue;
    const path = `${directory}/${name}`;
    await removeQuietly(path);
    removed.push(path);
  }
  return removed;
}

/** The caller has a better error to report; the next run tries again. */
export async function removeQuietly(path: string): Promise<void> {
  try {
    await Deno.remove(path);
  } catch (error) {
    if (codeOf(error) === undefined) throw error;
  }
}
