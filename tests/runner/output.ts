/** Writes to stdout. After `| head` the tests go on, to their clean-up and their exit code. */
export function show(bytes: Uint8Array): void {
  try {
    for (let at = 0; at < bytes.length;) {
      at += Deno.stdout.writeSync(bytes.subarray(at));
    }
  } catch (error) {
    if (!(error instanceof Deno.errors.BrokenPipe)) throw error;
  }
}

/** Writes a line, likewise. */
export function say(text: string): void {
  show(new TextEncoder().encode(`${text}\n`));
}
