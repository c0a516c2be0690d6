import { reservedPositions, type Span, spanAt } from "../../api/mod.ts";
import {
  type Address,
  type AddressRange,
  type DualStack,
  mapDualStack,
  type Prefix,
  valuesOf,
} from "../../inet/mod.ts";

/** One address of each family of a block: both have the same position. */
export interface Slot {
  /** Position in the block, from 0. */
  readonly index: number;
  readonly addresses: DualStack<Address>;
}

/** A block larger than this is used only in part: positions must stay exact numbers. */
const MAX_HOST_BITS = 48;

/**
 * Chooses addresses inside one block: the next free one after the last one given, so that an address is not
 * used again at once (upstream: `pkg/ipam/allocator.go`). Every address of the block is usable that is not reserved.
 *
 * Pure. Memory grows with the addresses in use, not with the block.
 */
export class BlockAllocator {
  /** Number of addresses per family. */
  readonly size: number;
  readonly #prefixes: DualStack<Prefix>;
  readonly #taken = new Set<number>();
  /** Sorted, none twice. */
  #reserved: readonly Span[] = [];
  #reservedSize = 0;
  #takenReserved = 0;
  #last = -1;

  /** @throws {RangeError} when there is no prefix */
  constructor(prefixes: DualStack<Prefix>) {
    const hostBits = valuesOf(prefixes).map((prefix) => prefix.hostBits);
    if (hostBits.length === 0) {
      throw new RangeError("Cannot allocate in a block without a prefix");
    }
    // A block edited by hand may have families of unequal size.
    this.size = 2 ** Math.min(...hostBits, MAX_HOST_BITS);
    this.#prefixes = prefixes;
  }

  /** How many positions can still be given. */
  get freeCount(): number {
    return this.size - this.#taken.size - this.reservedCount;
  }

  /** How many positions are reserved and not taken. */
  get reservedCount(): number {
    return this.#reservedSize - this.#takenReserved;
  }

  /** Gives the next free position after the last one given, or undefined when the block is full. */
  allocate(): Slot | undefined {
    if (this.freeCount === 0) return undefined;
    let index = this.#next(this.#last);
    for (;;) {
      const reserved = this.#reservedAt(index);
      if (reserved !== undefined) index = this.#next(reserved.last);
      else if (this.#taken.has(index)) index = this.#next(index);
      else break;
    }
    this.take(index);
    return { index, addresses: this.addressesAt(index) };
  }

  #next(index: number): number {
    return index + 1 === this.size ? 0 : index + 1;
  }

  /** Takes over which addresses are never given; who has one keeps it. */
  reserve(ranges: readonly AddressRange[]): void {
    const last = BigInt(this.size - 1);
    this.#reserved = reservedPositions(this.#prefixes, ranges)
      .filter(({ first }) => first <= last)
      .map((span) => ({
        first: Number(span.first),
        last: Number(span.last < last ? span.last : last),
      }));
    this.#reservedSize = this.#reserved
      .reduce((sum, { first, last }) => sum + last - first + 1, 0);
    this.#takenReserved = [...this.#taken]
      .filter((index) => this.isReserved(index)).length;
  }

  /** Whether a position is never given. */
  isReserved(index: number): boolean {
    return this.#reservedAt(index) !== undefined;
  }

  #reservedAt(index: number): Span | undefined {
    return spanAt(this.#reserved, index);
  }

  /** Takes a position. Idempotent. */
  take(index: number): void {
    if (!this.#taken.has(index) && this.isReserved(index)) {
      this.#takenReserved++;
    }
    this.#taken.add(index);
    this.#last = index;
  }

  /** Frees a position. Idempotent. */
  free(index: number): void {
    if (this.#taken.delete(index) && this.isReserved(index)) {
      this.#takenReserved--;
    }
  }

  /** The position of an address, or undefined when it lies outside. */
  indexOf(address: Address): number | undefined {
    const prefix = this.#prefixes[address.family];
    if (prefix === undefined || !prefix.contains(address)) return undefined;
    const index = prefix.indexOf(address);
    return index < BigInt(this.size) ? Number(index) : undefined;
  }

  /** The addresses at a position. */
  addressesAt(index: number): DualStack<Address> {
    return mapDualStack(this.#prefixes, (prefix) => prefix.nth(BigInt(index)));
  }
}
