/** All of stdin. Synchronous: there is nothing else to do in the meantime. */
export function readStdin(): Uint8Array {
  let buffer = new Uint8Array(65536);
  let length = 0;
  while (true) {
    const count = Deno.stdin.readSync(buffer.subarray(length));
    if (count === null) return buffer.subarray(0, length);
    length += count;
    if (length === buffer.length) {
      const larger = new Uint8Array(2 * length);
      larger.set(buffer);
      buffer = larger;
    }
  }
}

/** Writes all of `text` to stdout. */
export function writeStdout(text: string): void {
  let rest = new TextEncoder().encode(text);
  while (rest.length > 0) rest = rest.subarray(Deno.stdout.writeSync(rest));
}
