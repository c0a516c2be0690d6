/** The image cannot be made; the message says why and what to do. */
export class ImageError extends Error {
  override readonly name = "ImageError";
}

/** Turns "no space left" into an error that names the file; throws others as they are. */
export function explainWriteError(error: unknown, file: string): never {
  const code = error instanceof Error && "code" in error
    ? error.code
    : undefined;
  if (code !== "ENOSPC" && code !== "EDQUOT") throw error;
  throw new ImageError(
    `Cannot write "${file}": no space is left there (${code}); ` +
      "free some 400 MB, or set COIL_CACHE and --out to places with room",
    { cause: error },
  );
}
