import { messageOf } from "../../../lib/errors/mod.ts";

/** The image cannot be made; the message says why and what to do. */
export class ImageError extends Error {
  override readonly name = "ImageError";
}

/**
 * Says which file could not be written, and why.
 *
 * @throws {ImageError} always
 */
export function explainWriteError(error: unknown, file: string): never {
  if (error instanceof ImageError) throw error;
  const code = error instanceof Error && "code" in error
    ? error.code
    : undefined;
  const isFull = code === "ENOSPC" || code === "EDQUOT";
  const why = isFull
    ? `no space is left there (${code}); free some 400 MB, or set COIL_CACHE and --out to places with room`
    : messageOf(error);
  throw new ImageError(`Cannot write "${file}": ${why}`, { cause: error });
}
