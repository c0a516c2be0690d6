import { Address } from "./address.ts";
import type { Family } from "./family.ts";

/** Matches a decimal prefix length without leading zeros. */
const LENGTH = /^(?:0|[1-9][0-9]{0,2})$/;

/** A network: an address whose host bits are zero, and a length. Immutable. */
export class Prefix {
  /** The network address. */
  readonly address: Address;
  /** The prefix length in bits. */
  readonly length: number;

  private constructor(address: Address, length: number) {
    this.address = address;
    this.length = length;
  }

  /**
   * Parses CIDR text. Host bits are masked off, as in Kubernetes; "/08" is refused.
   *
   * @throws {SyntaxError} when the text is not a prefix
   */
  static parse(text: string): Prefix {
    const prefix = Prefix.tryParse(text);
    if (prefix === undefined) {
      throw new SyntaxError(
        `Cannot parse prefix: current value is ${JSON.stringify(text)}`,
      );
    }
    return prefix;
  }

  /** Parses CIDR text like {@linkcode Prefix.parse}, or returns undefined. */
  static tryParse(text: string): Prefix | undefined {
    const slash = text.indexOf("/");
    if (slash < 0) return undefined;
    const address = Address.tryParse(text.slice(0, slash));
    const lengthText = text.slice(slash + 1);
    if (address === undefined || !LENGTH.test(lengthText)) return undefined;
    const length = Number(lengthText);
    return length > address.bits ? undefined : Prefix.of(address, length);
  }

  /**
   * Makes the prefix of the given length that holds the address.
   *
   * @throws {RangeError} when the length is not an integer from 0 to the width of the family
   */
  static of(address: Address, length: number): Prefix {
    if (!Number.isInteger(length) || length < 0 || length > address.bits) {
      throw new RangeError(
        `Cannot make ${address.family} prefix: length ${length} is not within 0 and ${address.bits}`,
      );
    }
    const hostBits = BigInt(address.bits - length);
    const network = (address.value >> hostBits) << hostBits;
    return new Prefix(Address.of(address.family, network), length);
  }

  /** Makes the prefix that holds just the address: /32 or /128. */
  static host(address: Address): Prefix {
    return new Prefix(address, address.bits);
  }

  /** The family of the prefix. */
  get family(): Family {
    return this.address.family;
  }

  /** The number of bits that differ between its addresses. */
  get hostBits(): number {
    return this.address.bits - this.length;
  }

  /** The number of addresses in it. */
  get size(): bigint {
    return 1n << BigInt(this.hostBits);
  }

  /** Whether the address, or the whole other prefix, lies within. False across families. */
  contains(other: Address | Prefix): boolean {
    if (other.family !== this.family) return false;
    const address = other instanceof Prefix ? other.address : other;
    if (other instanceof Prefix && other.length < this.length) return false;
    const hostBits = BigInt(this.hostBits);
    return address.value >> hostBits === this.address.value >> hostBits;
  }

  /** Whether the two have an address in common. */
  overlaps(other: Prefix): boolean {
    return this.contains(other) || other.contains(this);
  }

  /**
   * Returns the address at the position, counted from the network address.
   *
   * @throws {RangeError} when the position is outside the prefix
   */
  nth(position: bigint): Address {
    if (position < 0n || position >= this.size) {
      throw new RangeError(
        `Cannot take address ${position} of "${this}": it has ${this.size}`,
      );
    }
    return this.address.offset(position);
  }

  /**
   * Returns the position of the address, counted from the network address.
   *
   * @throws {RangeError} when the address is not in the prefix
   */
  indexOf(address: Address): bigint {
    if (!this.contains(address)) {
      throw new RangeError(
        `Cannot find address "${address}" in "${this}": it is outside`,
      );
    }
    return address.value - this.address.value;
  }

  /**
   * Returns the part number `index` when the prefix is cut into parts of `newLength`.
   *
   * @throws {RangeError} when the parts would be larger than the prefix, or there is no such part
   */
  subnet(newLength: number, index: bigint): Prefix {
    const parts = newLength - this.length;
    const exists = parts >= 0 && index >= 0n && index >> BigInt(parts) === 0n;
    if (!exists) {
      throw new RangeError(
        `Cannot take part ${index} of length ${newLength} of "${this}": there is none`,
      );
    }
    const width = BigInt(this.address.bits - newLength);
    return Prefix.of(this.address.offset(index << width), newLength);
  }

  /** Whether both are the same network. */
  equals(other: Prefix): boolean {
    return this.length === other.length && this.address.equals(other.address);
  }

  /** Orders by address, then shorter before longer: negative, zero or positive. */
  compare(other: Prefix): number {
    return this.address.compare(other.address) || this.length - other.length;
  }

  /** Returns the canonical text, e.g. "10.2.0.0/24" or "fd02::/64". */
  toString(): string {
    return `${this.address}/${this.length}`;
  }

  /** Returns the canonical text, so that JSON holds what people read. */
  toJSON(): string {
    return this.toString();
  }
}
