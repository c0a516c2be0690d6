// The protobuf wire format, as much as messages of strings, bytes, small
// numbers and sub-messages need.
// https://protobuf.dev/programming-guides/encoding/

const VARINT = 0;
const FIXED64 = 1;
const LENGTH_DELIMITED = 2;
const FIXED32 = 5;

const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { fatal: true });

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

/** One field of a message: a number or the bytes of a length-delimited one. */
export type ProtoField =
  | { readonly field: number; readonly value: number }
  | { readonly field: number; readonly bytes: Uint8Array };

/** Decodes the bytes of a string field. @throws {SyntaxError} when they are not UTF-8 */
export function decodeText(bytes: Uint8Array): string {
  try {
    return decoder.decode(bytes);
  } catch (cause) {
    if (!(cause instanceof TypeError)) throw cause;
    throw new SyntaxError("Cannot parse protobuf: a text is not UTF-8", {
      cause,
    });
  }
}

/**
 * Yields the fields of an encoded message, in order; fixed-size numbers are
 * skipped.
 *
 * @throws {SyntaxError} when the bytes are not a message
 */
export function* readFields(bytes: Uint8Array): Generator<ProtoField> {
  const position = { at: 0 };
  while (position.at < bytes.length) {
    const tag = readVarint(bytes, position);
    const field = Math.floor(tag / 8);
    switch (tag % 8) {
      case VARINT:
        yield { field, value: readVarint(bytes, position) };
        break;
      case LENGTH_DELIMITED: {
        const length = readVarint(bytes, position);
        yield { field, bytes: take(bytes, position, length) };
        break;
      }
      case FIXED64:
        take(bytes, position, 8);
        break;
      case FIXED32:
        take(bytes, position, 4);
        break;
      default:
        throw malformed(`wire type ${tag % 8}`);
    }
  }
}

function malformed(what: string): SyntaxError {
  return new SyntaxError(`Cannot decode protobuf message: ${what}`);
}

function take(
  bytes: Uint8Array,
  position: { at: number },
  length: number,
): Uint8Array {
  const end = position.at + length;
  if (end > bytes.length) throw malformed("cut short");
  const part = bytes.subarray(position.at, end);
  position.at = end;
  return part;
}

function readVarint(bytes: Uint8Array, position: { at: number }): number {
  let [value, factor] = [0, 1];
  for (let i = 0; i < 10; i++) {
    const byte = bytes[position.at++];
    if (byte === undefined) throw malformed("cut short");
    value += (byte & 0x7f) * factor;
    if (byte < 0x80) return value;
    factor *= 128;
  }
  throw malformed("number of more than ten bytes");
}
