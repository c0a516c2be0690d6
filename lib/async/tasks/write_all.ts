/** Writes all of it, in as many writes as the target takes. */
export async function writeAll(
  target: { write(bytes: Uint8Array): Promise<number> },
  bytes: Uint8Array,
): Promise<void> {
  for (let rest = bytes; rest.length > 0;) {
    rest = rest.subarray(await target.write(rest));
  }
}
