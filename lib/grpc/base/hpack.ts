import { STATIC_TABLE } from "./hpack_tables.ts";
import { decodeHuffman } from "./huffman.ts";

/** A header field; names are lower case. */
export type HeaderField = readonly [name: string, value: string];

/** RFC 7541, section 4.1: what an entry counts beyond its text. */
const ENTRY_OVERHEAD = 32;

/** The size a dynamic table may have unless SETTINGS say otherwise. */
const DEFAULT_TABLE_SIZE = 4096;

/** Indexed fields cost one byte each, of any size: this bounds them. */
const MAX_LIST_SIZE = 256 * 1024;

const encoder = new TextEncoder();

/**
 * Encodes header fields without indexing and without Huffman coding: RFC 7541,
 * section 6.2.2 with names spelled out. Any decoder takes it, with any table
 * size, and a request has nothing to gain from more.
 */
export function encodeHeaders(fields: readonly HeaderField[]): Uint8Array {
  const bytes: number[] = [];
  for (const [name, value] of fields) {
    bytes.push(0);
    pushString(bytes, name);
    pushString(bytes, value);
  }
  return Uint8Array.from(bytes);
}

function pushString(bytes: number[], text: string): void {
  const encoded = encoder.encode(text);
  let rest = encoded.length;
  if (rest < 127) bytes.push(rest);
  else {
    bytes.push(127);
    rest -= 127;
    while (rest > 127) {
      bytes.push(rest % 128 | 128);
      rest = Math.floor(rest / 128);
    }
    bytes.push(rest);
  }
  for (const byte of encoded) bytes.push(byte);
}

/** Decodes the header blocks of one connection. RFC 7541. */
export class HpackDecoder {
  /** The dynamic table, newest first. */
  readonly #dynamic: HeaderField[] = [];
  #size = 0;
  #maxSize = DEFAULT_TABLE_SIZE;

  /**
   * Decodes a header block.
   *
   * @throws {SyntaxError} when it is malformed
   */
  decode(block: Uint8Array): HeaderField[] {
    const reader = new BlockReader(block);
    const fields: HeaderField[] = [];
    let listSize = 0;
    while (!reader.done) {
      const field = this.#next(reader);
      if (field === undefined) {
        if (fields.length > 0) throw malformed("table size after a field");
        continue;
      }
      listSize += sizeOf(field);
      if (listSize > MAX_LIST_SIZE) throw malformed("too many fields");
      fields.push(field);
    }
    return fields;
  }

  /** The next field; undefined after a change of the table's size. */
  #next(reader: BlockReader): HeaderField | undefined {
    const first = reader.peek();
    if (first & 0x80) return this.#entry(reader.integer(7));
    if (first & 0x40) {
      const field = this.#literal(reader, 6);
      this.#insert(field);
      return field;
    }
    if (first & 0x20) {
      this.#resize(reader.integer(5));
      return undefined;
    }
    return this.#literal(reader, 4);
  }

  #entry(index: number): HeaderField {
    const field = index <= STATIC_TABLE.length
      ? STATIC_TABLE[index - 1]
      : this.#dynamic[index - STATIC_TABLE.length - 1];
    if (field === undefined) throw malformed(`no entry ${index}`);
    return field;
  }

  #literal(reader: BlockReader, prefixBits: number): HeaderField {
    const index = reader.integer(prefixBits);
    const name = index === 0 ? reader.string() : this.#entry(index)[0];
    return [name, reader.string()];
  }

  #insert(field: HeaderField): void {
    this.#dynamic.unshift(field);
    this.#size += sizeOf(field);
    this.#evict();
  }

  #resize(maxSize: number): void {
    if (maxSize > DEFAULT_TABLE_SIZE) throw malformed("table size too large");
    this.#maxSize = maxSize;
    this.#evict();
  }

  #evict(): void {
    while (this.#size > this.#maxSize) {
      const field = this.#dynamic.pop();
      if (field !== undefined) this.#size -= sizeOf(field);
    }
  }
}

function sizeOf([name, value]: HeaderField): number {
  return name.length + value.length + ENTRY_OVERHEAD;
}

function malformed(what: string): SyntaxError {
  return new SyntaxError(`Cannot decode header block: ${what}`);
}

/** RFC 7541, section 5: the primitive types. */
class BlockReader {
  readonly #bytes: Uint8Array;
  #at = 0;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
  }

  get done(): boolean {
    return this.#at >= this.#bytes.length;
  }

  peek(): number {
    const byte = this.#bytes[this.#at];
    if (byte === undefined) throw malformed("cut short");
    return byte;
  }

  integer(prefixBits: number): number {
    const limit = 2 ** prefixBits - 1;
    let value = this.peek() & limit;
    this.#at++;
    if (value < limit) return value;
    // Four more bytes are 28 bits: larger than any block.
    for (const factor of [1, 2 ** 7, 2 ** 14, 2 ** 21]) {
      const byte = this.peek();
      this.#at++;
      value += (byte & 0x7f) * factor;
      if (byte < 0x80) return value;
    }
    throw malformed("integer too large");
  }

  string(): string {
    const isHuffman = (this.peek() & 0x80) !== 0;
    const length = this.integer(7);
    const end = this.#at + length;
    if (end > this.#bytes.length) throw malformed("string cut short");
    const raw = this.#bytes.subarray(this.#at, end);
    this.#at = end;
    return fromOctets(isHuffman ? decodeHuffman(raw) : raw);
  }
}

/** Field values are octets: one character each. */
function fromOctets(bytes: Uint8Array): string {
  let text = "";
  for (let at = 0; at < bytes.length; at += 8192) {
    text += String.fromCharCode(...bytes.subarray(at, at + 8192));
  }
  return text;
}
