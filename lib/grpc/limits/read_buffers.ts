const SIZE = 8 * 1024;
const MAX_SPARE = 128;

/**
 * Read buffers, reused: V8 is slow to notice that memory outside
 * of its heap could be freed.
 */
export class ReadBuffers {
  readonly #spare: Uint8Array[] = [];

  take(): Uint8Array {
    return this.#spare.pop() ?? new Uint8Array(SIZE);
  }

  give(buffer: Uint8Array): void {
    if (this.#spare.length < MAX_SPARE) this.#spare.push(buffer);
  }
}
