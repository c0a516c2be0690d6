import { CniError } from "../../lib/cni/mod.ts";
import {
  NOTHING_SHARED,
  parseDocument,
  readShared,
  type Shared,
} from "../../lib/coordinator/mod.ts";

/** Bits of a mode by which others than the owner may write. */
const OTHERS_WRITE = 0o022;

/** The defaults that coild has written down. A file that cannot be used counts as none, and is told as the reason. */
export function readDefaults(path: string): Shared {
  try {
    refuseForeign(Deno.lstatSync(path));
    return readShared(parseDocument(Deno.readTextFileSync(path)));
  } catch (error) {
    const { given, problem } = readShared(NOTHING_SHARED);
    if (error instanceof Deno.errors.NotFound) return { given, problem };
    const isReadable = error instanceof SyntaxError ||
      error instanceof CniError ||
      error instanceof Deno.errors.PermissionDenied;
    if (!isReadable || problem === undefined) throw error;
    const details = `file "${path}": ${error.message}; ${problem.details}`;
    return { given, problem: { ...problem, details } };
  }
}

/** Whoever could write the file would lead pods' packets elsewhere. */
function refuseForeign({ isFile, uid, mode }: Deno.FileInfo): void {
  const isOwn = isFile && uid === Deno.uid() &&
    ((mode ?? 0) & OTHERS_WRITE) === 0;
  if (isOwn) return;
  throw new Deno.errors.PermissionDenied(
    "it must be a file of this user that others cannot write",
  );
}
