const VARINT = 0;
const FIXED64 = 1;
const LENGTH_DELIMITED = 2;
const FIXED32 = 5;

const decoder = new TextDecoder("utf-8", { fatal: true });

/**
 * Reads the fields of an encoded protobuf message, in order
 * (protobuf.dev/programming-guides/encoding). What is not asked for costs one
 * step, of any size.
 */
export class ProtoReader {
  readonly #bytes: Uint8Array;
  #at: number;
  #end: number;
  #field = 0;
  #number = 0;
  #start = 0;

  constructor(
    bytes: Uint8Array,
    start: number = 0,
    end: number = bytes.length,
  ) {
    this.#bytes = bytes;
    this.#at = start;
    this.#end = end;
  }

  /** Goes to the next field; false at the end. @throws {SyntaxError} when the bytes are not a message */
  next(): boolean {
    if (this.#at >= this.#end) return false;
    const tag = this.#varint();
    const type = tag & 7;
    this.#field = (tag - type) / 8;
    if (type === LENGTH_DELIMITED) {
      this.#skip(this.#varint());
    } else if (type === VARINT) {
      this.#number = this.#varint();
      this.#start = this.#at;
    } else if (type === FIXED64 || type === FIXED32) {
      this.#skip(type === FIXED64 ? 8 : 4);
    } else {
      throw malformed(`wire type ${type}`);
    }
    return true;
  }

  /** Number of the field. */
  get field(): number {
    return this.#field;
  }

  /** The number in the field; exact below 2^53. */
  get number(): number {
    return this.#number;
  }

  /** The bytes of the field; a view. */
  get bytes(): Uint8Array {
    return this.#bytes.subarray(this.#start, this.#at);
  }

  /** Goes into the message in the field: its fields are next, until `next()` is false or `leave()` is called with what this returns. */
  enter(): number {
    const outer = this.#end;
    this.#end = this.#at;
    this.#at = this.#start;
    return outer;
  }

  /** Goes behind the message that was entered, read to its end or not. */
  leave(outer: number): void {
    this.#at = this.#end;
    this.#end = outer;
  }

  /** The text of the field. @throws {SyntaxError} when it is not UTF-8 */
  get text(): string {
    const { bytes } = this;
    // Nearly all is ASCII, of which this makes a text many times faster.
    if (bytes.length < MOST_ARGUMENTS) {
      const text = String.fromCharCode.apply(null, bytes as never);
      if (!NOT_ASCII.test(text)) return text;
    }
    try {
      return decoder.decode(bytes);
    } catch (cause) {
      if (!(cause instanceof TypeError)) throw cause;
      throw new SyntaxError("Cannot parse protobuf: a text is not UTF-8", {
        cause,
      });
    }
  }

  #skip(length: number): void {
    this.#start = this.#at;
    this.#at += length;
    if (this.#at > this.#end) throw malformed("cut short");
  }

  #varint(): number {
    const bytes = this.#bytes;
    let at = this.#at;
    let value = 0;
    for (let factor = 1; at < this.#end && factor < MOST_FACTOR; at++) {
      const byte = bytes[at] ?? 0;
      value += (byte & 0x7f) * factor;
      if (byte < 0x80) {
        this.#at = at + 1;
        return value;
      }
      factor *= 128;
    }
    throw malformed("a number is cut short or has more than ten bytes");
  }
}

const MOST_FACTOR = 2 ** 70;
/** A function takes some ten thousands. */
const MOST_ARGUMENTS = 1_000;
const NOT_ASCII = /[\x80-\xff]/;

function malformed(what: string): SyntaxError {
  return new SyntaxError(`Cannot decode protobuf message: ${what}`);
}
