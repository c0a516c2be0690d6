/**
 * Errors as text.
 *
 * @module
 */

/** The message of anything thrown, without its causes. */
export function messageOf(thrown: unknown): string {
  return thrown instanceof Error ? thrown.message : String(thrown);
}
