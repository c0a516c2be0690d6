import {
  align,
  ATTRIBUTE_HEADER_SIZE,
  NLA_TYPE_MASK,
  NLMSG_HEADER_SIZE,
} from "./constants.ts";

const decoder = new TextDecoder();

/** One received message. Its payload is a view, good only until the next receive. */
export interface Message {
  /** The message type, such as RTM_NEWLINK. */
  readonly type: number;
  /** The NLM_F_… flags. */
  readonly flags: number;
  /** The number of the request that this answers. */
  readonly sequence: number;
  /** The port id of the socket that this answers. */
  readonly portId: number;
  /** What follows the header. */
  readonly payload: Payload;
}

/**
 * Takes a datagram apart into its messages.
 *
 * @throws {SyntaxError} when the bytes are not whole messages
 */
export function* parseMessages(bytes: Uint8Array): Generator<Message> {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let at = 0;
  while (at < bytes.byteLength) {
    const left = bytes.byteLength - at;
    const length = left < NLMSG_HEADER_SIZE ? 0 : view.getUint32(at, true);
    if (length < NLMSG_HEADER_SIZE || length > left) {
      throw new SyntaxError(
        `Cannot parse netlink message: length is ${length}, ${left} bytes are left`,
      );
    }
    yield {
      type: view.getUint16(at + 4, true),
      flags: view.getUint16(at + 6, true),
      sequence: view.getUint32(at + 8, true),
      portId: view.getUint32(at + 12, true),
      payload: new Payload(bytes.subarray(at + NLMSG_HEADER_SIZE, at + length)),
    };
    at += align(length);
  }
}

/** The bytes of a message after its header, or of an attribute that starts with a fixed header. */
export class Payload {
  /** The raw bytes. */
  readonly bytes: Uint8Array;
  readonly #view: DataView;

  /** A view on the bytes; nothing is copied. */
  constructor(bytes: Uint8Array) {
    this.bytes = bytes;
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  /** Reads one byte. @throws {SyntaxError} past the end, as all of these */
  u8(offset: number): number {
    this.#check(offset, 1);
    return this.#view.getUint8(offset);
  }

  /** Reads two bytes. */
  u16(offset: number): number {
    this.#check(offset, 2);
    return this.#view.getUint16(offset, true);
  }

  /** Reads two bytes, big-endian. */
  u16Be(offset: number): number {
    this.#check(offset, 2);
    return this.#view.getUint16(offset);
  }

  /** Reads four bytes. */
  u32(offset: number): number {
    this.#check(offset, 4);
    return this.#view.getUint32(offset, true);
  }

  /** Reads four bytes, big-endian. */
  u32Be(offset: number): number {
    this.#check(offset, 4);
    return this.#view.getUint32(offset);
  }

  /** Reads eight bytes. */
  u64(offset: number): bigint {
    this.#check(offset, 8);
    return this.#view.getBigUint64(offset, true);
  }

  /** Reads eight bytes, big-endian. */
  u64Be(offset: number): bigint {
    this.#check(offset, 8);
    return this.#view.getBigUint64(offset);
  }

  /** Reads four bytes, signed. */
  i32(offset: number): number {
    this.#check(offset, 4);
    return this.#view.getInt32(offset, true);
  }

  /** Reads the attributes after a fixed header of that size. */
  attributes(headerSize: number): Attributes {
    this.#check(0, headerSize);
    return new Attributes(this.bytes.subarray(align(headerSize)));
  }

  #check(offset: number, size: number): void {
    if (offset + size > this.bytes.byteLength) {
      throw new SyntaxError(
        `Cannot parse netlink message: ${this.bytes.byteLength} bytes are too few`,
      );
    }
  }
}

/** A list of attributes. As in the kernel, of several with one type the last counts. */
export class Attributes {
  readonly #values = new Map<number, Uint8Array>();
  readonly #bytes: Uint8Array;

  /**
   * Finds the attributes; up to three bytes of padding may follow the last.
   *
   * @throws {SyntaxError} when an attribute is shorter than its header or longer than the bytes
   */
  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
    walk(bytes, (type, value) => void this.#values.set(type, value));
  }

  /** The bytes of every attribute of the type, in the order they came: the elements of a list. */
  list(type: number): Uint8Array[] {
    const values: Uint8Array[] = [];
    walk(this.#bytes, (each, value) => {
      if (each === type) values.push(value);
    });
    return values;
  }

  /** The types that are there, in the order they came. */
  types(): number[] {
    return [...this.#values.keys()];
  }

  /** The bytes of an attribute, or undefined when it is not there; so do all of these. */
  bytes(type: number): Uint8Array | undefined {
    return this.#values.get(type);
  }

  /** Reads one byte. @throws {SyntaxError} when the attribute has another size */
  u8(type: number): number | undefined {
    return this.#sized(type, 1)?.u8(0);
  }

  /** Whether the attribute is there: for those without a value. */
  flag(type: number): boolean {
    return this.#values.has(type);
  }

  /** Reads two bytes. @throws {SyntaxError} when the attribute has another size */
  u16(type: number): number | undefined {
    return this.#sized(type, 2)?.u16(0);
  }

  /** Reads two bytes, big-endian. @throws {SyntaxError} when the attribute has another size */
  u16Be(type: number): number | undefined {
    return this.#sized(type, 2)?.u16Be(0);
  }

  /** Reads four bytes. @throws {SyntaxError} when the attribute has another size */
  u32(type: number): number | undefined {
    return this.#sized(type, 4)?.u32(0);
  }

  /** Reads four bytes, signed. @throws {SyntaxError} when the attribute has another size */
  i32(type: number): number | undefined {
    return this.#sized(type, 4)?.i32(0);
  }

  /** Reads four bytes, big-endian. @throws {SyntaxError} when the attribute has another size */
  u32Be(type: number): number | undefined {
    return this.#sized(type, 4)?.u32Be(0);
  }

  /** Reads eight bytes, big-endian. @throws {SyntaxError} when the attribute has another size */
  u64Be(type: number): bigint | undefined {
    return this.#sized(type, 8)?.u64Be(0);
  }

  /** Reads text up to its first NUL. */
  string(type: number): string | undefined {
    const bytes = this.#values.get(type);
    if (bytes === undefined) return undefined;
    const end = bytes.indexOf(0);
    return decoder.decode(end < 0 ? bytes : bytes.subarray(0, end));
  }

  /** Reads the attributes inside an attribute. @throws {SyntaxError} when they are malformed */
  nested(type: number): Attributes | undefined {
    const bytes = this.#values.get(type);
    return bytes && new Attributes(bytes);
  }

  #sized(type: number, size: number): Payload | undefined {
    const bytes = this.#values.get(type);
    if (bytes === undefined) return undefined;
    if (bytes.byteLength !== size) {
      throw new SyntaxError(
        `Cannot parse netlink attribute ${type}: it has ${bytes.byteLength} bytes, not ${size}`,
      );
    }
    return new Payload(bytes);
  }
}

/** Goes through attributes one by one. */
function walk(
  bytes: Uint8Array,
  visit: (type: number, value: Uint8Array) => void,
): void {
  let at = 0;
  while (bytes.byteLength - at >= ATTRIBUTE_HEADER_SIZE) {
    const length = word(bytes, at);
    if (length < ATTRIBUTE_HEADER_SIZE || length > bytes.byteLength - at) {
      throw new SyntaxError(
        `Cannot parse netlink attribute: length is ${length}, ${
          bytes.byteLength - at
        } bytes are left`,
      );
    }
    visit(
      word(bytes, at + 2) & NLA_TYPE_MASK,
      bytes.subarray(at + ATTRIBUTE_HEADER_SIZE, at + length),
    );
    at += align(length);
  }
}

function word(bytes: Uint8Array, at: number): number {
  return (bytes[at] ?? 0) | (bytes[at + 1] ?? 0) << 8;
}
