import type { Bytes } from "../../linux/mod.ts";
import {
  align,
  ATTRIBUTE_HEADER_SIZE,
  NLA_F_NESTED,
  NLMSG_HEADER_SIZE,
} from "./constants.ts";

const encoder = new TextEncoder();

/** The most that the 16-bit length of an attribute can say. */
const MAX_ATTRIBUTE_SIZE = 0xffff;

/**
 * Writes netlink messages one after another into one buffer that is used again
 * and again. Numbers are little-endian: netlink speaks the machine's byte order,
 * and Deno runs on no big-endian machine.
 */
export class MessageWriter {
  #bytes: Bytes;
  #view: DataView;
  #length = 0;

  /** `capacity` is where the buffer starts out; it grows as needed. */
  constructor(capacity = 4096) {
    this.#bytes = new Uint8Array(capacity);
    this.#view = new DataView(this.#bytes.buffer);
  }

  /** The number of bytes written so far. */
  get length(): number {
    return this.#length;
  }

  /** What was written so far: a view that the next write after `reset()` overwrites. */
  bytes(): Bytes {
    return this.#bytes.subarray(0, this.#length);
  }

  /** Starts over with an empty buffer. */
  reset(): void {
    this.#truncate(0);
  }

  /** Writes one message: the header, then what `body` writes. */
  message(
    header: { type: number; flags: number; sequence: number },
    body: (writer: MessageWriter) => void,
  ): void {
    const start = this.#reserve(NLMSG_HEADER_SIZE);
    this.#view.setUint16(start + 4, header.type, true);
    this.#view.setUint16(start + 6, header.flags, true);
    this.#view.setUint32(start + 8, header.sequence, true);
    try {
      body(this);
    } catch (error) {
      this.#truncate(start);
      throw error;
    }
    this.#view.setUint32(start, this.#length - start, true);
    this.#reserve(align(this.#length) - this.#length);
  }

  /** Writes one byte of a fixed header. */
  u8(value: number): void {
    const at = this.#reserve(1);
    this.#view.setUint8(at, value);
  }

  /** Writes two bytes of a fixed header. */
  u16(value: number): void {
    const at = this.#reserve(2);
    this.#view.setUint16(at, value, true);
  }

  /** Writes two bytes of a fixed header, big-endian. */
  u16Be(value: number): void {
    const at = this.#reserve(2);
    this.#view.setUint16(at, value);
  }

  /** Writes four bytes of a fixed header. */
  u32(value: number): void {
    const at = this.#reserve(4);
    this.#view.setUint32(at, value, true);
  }

  /** Writes bytes as they are: what another writer has written. */
  raw(bytes: Uint8Array): void {
    const at = this.#reserve(bytes.byteLength);
    this.#bytes.set(bytes, at);
  }

  /** Writes an attribute of one byte. */
  attributeU8(type: number, value: number): void {
    const at = this.#attribute(type, 1);
    this.#view.setUint8(at, value);
  }

  /** Writes an attribute of two bytes. */
  attributeU16(type: number, value: number): void {
    const at = this.#attribute(type, 2);
    this.#view.setUint16(at, value, true);
  }

  /** Writes an attribute of two bytes, big-endian: ports, and much of netfilter. */
  attributeU16Be(type: number, value: number): void {
    const at = this.#attribute(type, 2);
    this.#view.setUint16(at, value);
  }

  /** Writes an attribute of four bytes. */
  attributeU32(type: number, value: number): void {
    const at = this.#attribute(type, 4);
    this.#view.setUint32(at, value, true);
  }

  /** Writes an attribute of four bytes, big-endian. */
  attributeU32Be(type: number, value: number): void {
    const at = this.#attribute(type, 4);
    this.#view.setUint32(at, value);
  }

  /** Writes an attribute without a value, whose presence says it all. */
  attributeFlag(type: number): void {
    this.#attribute(type, 0);
  }

  /** Writes an attribute that holds bytes. */
  attributeBytes(type: number, value: Uint8Array): void {
    const at = this.#attribute(type, value.byteLength);
    this.#bytes.set(value, at);
  }

  /**
   * Writes an attribute that holds text, ended by a NUL unless `nul` is false.
   *
   * @throws {SyntaxError} when a NUL is in the text: to the kernel it ends there, and names something else
   */
  attributeString(
    type: number,
    value: string,
    options: { nul?: boolean } = {},
  ): void {
    if (value.includes("\0")) {
      throw new SyntaxError(
        `Cannot write netlink attribute ${type}: ${
          JSON.stringify(value)
        } has a NUL in it`,
      );
    }
    const bytes = encoder.encode(value);
    const nul = options.nul === false ? 0 : 1;
    const at = this.#attribute(type, bytes.byteLength + nul);
    this.#bytes.set(bytes, at);
  }

  /** Writes an attribute that holds what `body` writes: attributes, maybe after a fixed header. */
  nest(type: number, body: () => void): void {
    const start = this.#reserve(ATTRIBUTE_HEADER_SIZE);
    body();
    this.#closeAttribute(start, type | NLA_F_NESTED);
  }

  #attribute(type: number, size: number): number {
    const start = this.#reserve(ATTRIBUTE_HEADER_SIZE);
    this.#reserve(size);
    this.#closeAttribute(start, type);
    return start + ATTRIBUTE_HEADER_SIZE;
  }

  #closeAttribute(start: number, type: number): void {
    const size = this.#length - start;
    if (size > MAX_ATTRIBUTE_SIZE) {
      throw new RangeError(
        `Cannot write netlink attribute ${type}: ${size} bytes are too many`,
      );
    }
    this.#view.setUint16(start, size, true);
    this.#view.setUint16(start + 2, type, true);
    this.#reserve(align(size) - size);
  }

  /** Adds that many zero bytes and returns where they are. The buffer may be another one afterwards. */
  #reserve(size: number): number {
    const start = this.#length;
    const end = start + size;
    if (end > this.#bytes.byteLength) this.#grow(end);
    this.#length = end;
    return start;
  }

  /** What is not written yet is zero. */
  #truncate(length: number): void {
    this.#bytes.fill(0, length, this.#length);
    this.#length = length;
  }

  #grow(needed: number): void {
    const bytes = new Uint8Array(Math.max(needed, 2 * this.#bytes.byteLength));
    bytes.set(this.#bytes.subarray(0, this.#length));
    this.#bytes = bytes;
    this.#view = new DataView(bytes.buffer);
  }
}
