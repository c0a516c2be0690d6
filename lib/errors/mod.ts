/**
 * Errors as text, and their codes.
 *
 * @module
 */

/** The message of anything thrown, without its causes. */
export function messageOf(thrown: unknown): string {
  return thrown instanceof Error ? thrown.message : String(thrown);
}

/** The name of the operating system's error, such as "ENOSPC"; undefined for other errors. */
export function codeOf(thrown: unknown): string | undefined {
  if (!(thrown instanceof Error) || !("code" in thrown)) return undefined;
  return typeof thrown.code === "string" ? thrown.code : undefined;
}
