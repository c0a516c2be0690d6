/**
 * Arrays of bytes, and messages of protobuf in them.
 *
 * @module
 */
export { ProtoReader } from "./proto_reader.ts";

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

/** Bytes that come in chunks, in one buffer that grows and can be used again. */
export class ByteCollector {
  #buffer = new Uint8Array(64 * 1024);
  #length = 0;

  /** Copies the chunk behind the others. */
  add(chunk: Uint8Array): void {
    const needed = this.#length + chunk.length;
    if (needed > this.#buffer.length) {
      const larger = new Uint8Array(Math.max(needed, 2 * this.#buffer.length));
      larger.set(this.bytes);
      this.#buffer = larger;
    }
    this.#buffer.set(chunk, this.#length);
    this.#length = needed;
  }

  /** What was added; a view, until more is added. */
  get bytes(): Uint8Array {
    return this.#buffer.subarray(0, this.#length);
  }

  /** Forgets what was added, and keeps the buffer. */
  clear(): void {
    this.#length = 0;
  }
}
