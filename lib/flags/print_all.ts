/** How long to wait for a reader that is slower than we are. */
const PAUSE_MS = 5;

/**
 * Writes all of a text to stdout or stderr before it returns, however slowly
 * it is read. Returns false when its reader is gone, as after "| head".
 *
 * The parent process may have made the pipe non-blocking, as Node.js does;
 * a full one refuses with EAGAIN then.
 *
 * @throws {Error} when the write fails otherwise
 */
export function printAll(
  stream: { writeSync(data: Uint8Array): number },
  text: string,
): boolean {
  let rest = new TextEncoder().encode(text);
  while (rest.length > 0) {
    try {
      rest = rest.subarray(stream.writeSync(rest));
    } catch (error) {
      if (error instanceof Deno.errors.BrokenPipe) return false;
      if (!(error instanceof Deno.errors.WouldBlock)) throw error;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, PAUSE_MS);
    }
  }
  return true;
}
