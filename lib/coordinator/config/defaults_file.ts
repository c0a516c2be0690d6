import { CniError } from "../../cni/mod.ts";
import {
  formatDocument,
  NOTHING_SHARED,
  parseDocument,
  readShared,
  type Shared,
  type SharedDocument,
} from "./shared.ts";

/** Its owner alone may read and write it. */
const MODE = 0o600;
const PERMISSIONS = 0o777;
/** Bits of a mode by which others than the owner may write. */
const OTHERS_WRITE = 0o022;

/**
 * Reads the file with the defaults. Without one nothing is known; the document
 * of a file that cannot be used has the reason.
 *
 * @throws {Error} when the file system fails otherwise
 */
export function readDefaults(path: string): SharedDocument {
  try {
    refuseForeign(Deno.lstatSync(path));
    const document = parseDocument(Deno.readTextFileSync(path));
    readShared(document);
    return document;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return NOTHING_SHARED;
    const { config, problem } = NOTHING_SHARED;
    if (!isUnusable(error) || problem === undefined) throw error;
    const { message } = problem;
    const details =
      `file "${path}" cannot be used: ${error.message}; delete it, coild writes it again`;
    return { config, problem: { message, details } };
  }
}

/** The defaults in a file, or why it has none. */
export function sharedIn(path: string): Shared {
  return readShared(readDefaults(path));
}

/**
 * Writes the file at once or not at all, unless it is there as it should be.
 * Returns whether it had to. Only its owner may read and write it.
 *
 * @throws {Error} when the file system fails
 */
export async function writeDefaults(
  path: string,
  document: SharedDocument,
): Promise<boolean> {
  const text = formatDocument(document);
  if (await isThere(path, text)) return false;
  const temporary = `${path}.new`;
  await Deno.remove(temporary).catch((error) => {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  });
  await Deno.writeTextFile(temporary, text, { mode: MODE, createNew: true });
  await Deno.rename(temporary, path);
  return true;
}

async function isThere(path: string, text: string): Promise<boolean> {
  try {
    const info = await Deno.lstat(path);
    refuseForeign(info);
    return ((info.mode ?? 0) & PERMISSIONS) === MODE &&
      await Deno.readTextFile(path) === text;
  } catch (error) {
    const isMissing = error instanceof Deno.errors.NotFound ||
      error instanceof Deno.errors.PermissionDenied;
    if (isMissing) return false;
    throw error;
  }
}

function isUnusable(error: unknown): error is Error {
  return error instanceof SyntaxError || error instanceof CniError ||
    error instanceof Deno.errors.PermissionDenied;
}

/** A user who can write the file can redirect what pods send. */
function refuseForeign({ isFile, uid, mode }: Deno.FileInfo): void {
  const isOwn = isFile && uid === Deno.uid() &&
    ((mode ?? 0) & OTHERS_WRITE) === 0;
  if (isOwn) return;
  throw new Deno.errors.PermissionDenied(
    "it must be a file of this user that others cannot write",
  );
}
