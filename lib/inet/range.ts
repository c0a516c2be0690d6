import { Address } from "./address.ts";
import type { Family } from "./family.ts";
import { Prefix } from "./prefix.ts";

/** The addresses of one family from a first to a last one. Immutable. */
export class AddressRange {
  /** The lowest address. */
  readonly first: Address;
  /** The highest address. */
  readonly last: Address;

  private constructor(first: Address, last: Address) {
    this.first = first;
    this.last = last;
  }

  /** Parses "10.2.0.1", "10.2.0.1-10.2.0.9", in either order, or the CIDR of a network; or returns undefined. */
  static tryParse(text: string): AddressRange | undefined {
    const prefix = text.includes("/") ? Prefix.tryParse(text) : undefined;
    if (prefix !== undefined) return AddressRange.ofPrefix(prefix);
    const [from = "", to = from, ...more] = text.split("-");
    const a = Address.tryParse(from);
    const b = Address.tryParse(to);
    if (more.length > 0 || b === undefined || a?.family !== b.family) {
      return undefined;
    }
    return a.compare(b) <= 0 ? new AddressRange(a, b) : new AddressRange(b, a);
  }

  /** The addresses of a network. */
  static ofPrefix(prefix: Prefix): AddressRange {
    return new AddressRange(prefix.address, prefix.nth(prefix.size - 1n));
  }

  /** The family of the addresses. */
  get family(): Family {
    return this.first.family;
  }

  /** Whether the address is one of these. */
  contains(address: Address): boolean {
    return address.family === this.family &&
      address.value >= this.first.value && address.value <= this.last.value;
  }

  /** Returns the canonical text: one address, or two with "-" between. */
  toString(): string {
    return this.first.equals(this.last)
      ? `${this.first}`
      : `${this.first}-${this.last}`;
  }
}
