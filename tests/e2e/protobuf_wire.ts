// The protobuf wire format, as much as messages of strings, bytes, small
// numbers and sub-messages need.
// https://protobuf.dev/programming-guides/encoding/

const VARINT = 0;
const LENGTH_DELIMITED = 2;

const encoder = new TextEncoder();

/** Writes the fields of one protobuf message. */
export class ProtoWriter {
  #bytes = new Uint8Array(512);
  #length = 0;

  /** Writes a string; nothing when it is empty, as proto3 has it. */
  string(field: number, text: string): this {
    return text === "" ? this : this.message(field, encoder.encode(text));
  }

  /** Writes bytes; nothing when there are none. */
  bytes(field: number, bytes: Uint8Array): this {
    return bytes.length === 0 ? this : this.message(field, bytes);
  }

  /** Writes a whole number from 0 on; nothing when it is 0. */
  uint(field: number, value: number): this {
    if (value === 0) return this;
    return this.#varint(field << 3 | VARINT).#varint(value);
  }

  /** Writes a boolean, false as well. */
  bool(field: number, value: boolean): this {
    return this.#varint(field << 3 | VARINT).#varint(value ? 1 : 0);
  }

  /** Writes a length-delimited field, empty or not: a message, a map entry. */
  message(field: number, bytes: Uint8Array): this {
    this.#varint(field << 3 | LENGTH_DELIMITED).#varint(bytes.length);
    this.#reserve(bytes.length);
    this.#bytes.set(bytes, this.#length);
    this.#length += bytes.length;
    return this;
  }

  /** What was written so far. */
  finish(): Uint8Array {
    return this.#bytes.subarray(0, this.#length);
  }

  #reserve(count: number): void {
    const needed = this.#length + count;
    if (needed <= this.#bytes.length) return;
    const larger = new Uint8Array(Math.max(needed, 2 * this.#bytes.length));
    larger.set(this.#bytes.subarray(0, this.#length));
    this.#bytes = larger;
  }

  #varint(value: number): this {
    if (!Number.isSafeInteger(value) || value < 0) {
      throw new RangeError(`Cannot encode ${value} as a varint`);
    }
    this.#reserve(8);
    let rest = value;
    while (rest > 0x7f) {
      this.#bytes[this.#length++] = rest % 128 | 0x80;
      rest = Math.floor(rest / 128);
    }
    this.#bytes[this.#length++] = rest;
    return this;
  }
}
