import { bitsOf, type Family } from "./family.ts";
import { formatIpv4, formatIpv6, parseText } from "./text.ts";

/** One IPv4 or IPv6 address. Immutable. */
export class Address {
  /** The family the address belongs to. An IPv4-mapped address is IPv6. */
  readonly family: Family;
  /** The address as an unsigned number in network order. */
  readonly value: bigint;

  private constructor(family: Family, value: bigint) {
    this.family = family;
    this.value = value;
  }

  /**
   * Parses the text of an address. Strict: no short forms, no leading zeros in IPv4, no zone identifier, no blanks.
   *
   * @throws {SyntaxError} when the text is not an address
   */
  static parse(text: string): Address {
    const address = Address.tryParse(text);
    if (address === undefined) {
      throw new SyntaxError(
        `Cannot parse address: current value is ${JSON.stringify(text)}`,
      );
    }
    return address;
  }

  /** Parses the text of an address like {@linkcode Address.parse}, or returns undefined. */
  static tryParse(text: string): Address | undefined {
    const parsed = parseText(text);
    return parsed && new Address(parsed.family, parsed.value);
  }

  /**
   * Makes an address from 4 or 16 bytes in network order.
   *
   * @throws {RangeError} when there are neither 4 nor 16 bytes
   */
  static fromBytes(bytes: Uint8Array): Address {
    if (bytes.length !== 4 && bytes.length !== 16) {
      throw new RangeError(
        `Cannot make address: needs 4 or 16 bytes, got ${bytes.length}`,
      );
    }
    let value = 0n;
    for (const byte of bytes) value = (value << 8n) | BigInt(byte);
    return new Address(bytes.length === 4 ? "ipv4" : "ipv6", value);
  }

  /**
   * Makes an address from its number.
   *
   * @throws {RangeError} when the number does not fit the family
   */
  static of(family: Family, value: bigint): Address {
    if (value < 0n || value >> BigInt(bitsOf(family)) !== 0n) {
      throw new RangeError(
        `Cannot make ${family} address: number ${value} is outside the family`,
      );
    }
    return new Address(family, value);
  }

  /** The width in bits: 32 or 128. */
  get bits(): 32 | 128 {
    return bitsOf(this.family);
  }

  /** Whether this is in 169.254.0.0/16 (RFC 3927) or fe80::/10 (RFC 4291 section 2.5.6). */
  get isLinkLocal(): boolean {
    return this.family === "ipv4"
      ? this.value >> 16n === 0xa9fen
      : this.value >> 118n === 0x3fan;
  }

  /** Returns the 4 or 16 bytes in network order, in a fresh array. */
  toBytes(): Uint8Array<ArrayBuffer> {
    const bytes = new Uint8Array(this.bits / 8);
    let rest = this.value;
    for (let i = bytes.length - 1; i >= 0; i--) {
      bytes[i] = Number(rest & 0xffn);
      rest >>= 8n;
    }
    return bytes;
  }

  /** Returns the canonical text: dotted decimal, or RFC 5952 for IPv6. */
  toString(): string {
    return this.family === "ipv4"
      ? formatIpv4(this.value)
      : formatIpv6(this.value);
  }

  /** Returns the canonical text, so that JSON holds what people read. */
  toJSON(): string {
    return this.toString();
  }

  /** Whether both are the same address of the same family. */
  equals(other: Address): boolean {
    return this.family === other.family && this.value === other.value;
  }

  /**
   * Returns the address `n` places further.
   *
   * @throws {RangeError} when that is outside the family
   */
  offset(n: bigint): Address {
    return Address.of(this.family, this.value + n);
  }

  /** Orders IPv4 before IPv6, then by number: negative, zero or positive. */
  compare(other: Address): number {
    if (this.family !== other.family) return this.family === "ipv4" ? -1 : 1;
    if (this.value === other.value) return 0;
    return this.value < other.value ? -1 : 1;
  }
}
