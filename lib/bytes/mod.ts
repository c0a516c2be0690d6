/**
 * Arrays of bytes.
 *
 * @module
 */

/** Copies the parts into one array, in their order. */
export function concatenate(
  parts: readonly Uint8Array[],
): Uint8Array<ArrayBuffer> {
  const whole = new Uint8Array(parts.reduce((sum, p) => sum + p.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}
