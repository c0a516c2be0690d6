import {
  type Address,
  type AddressRange,
  type DualStack,
  type Prefix,
  valuesOf,
} from "../../inet/mod.ts";
import { mergeSpans, type Span } from "./span.ts";
import { MAX_BLOCKS, type Pool, poolCapacity, subnetCapacity } from "./pool.ts";

/** Positions from `first` to `last`, both included. */
interface Positions {
  readonly first: bigint;
  readonly last: bigint;
}

/** Reserved addresses of a pool's blocks. */
export interface ReservedBlocks {
  /** Blocks of which nothing can be given; sorted, none twice. */
  readonly whole: readonly Span[];
  /** Of other blocks, how many positions cannot be given, by index. */
  readonly partly: ReadonlyMap<number, number>;
}

/** How many blocks can be allocated from a pool when none is: those of which something is left. */
export function usableBlocks(
  pool: Parameters<typeof reservedBlocks>[0],
  { whole }: Pick<ReservedBlocks, "whole"> = reservedBlocks(pool),
): number {
  return whole.reduce(
    (left, { first, last }) => left - (last - first + 1),
    poolCapacity(pool),
  );
}

/** Whether an address is reserved. */
export function isReserved(
  { reserved }: Pick<Pool, "reserved">,
  address: Address,
): boolean {
  return reserved.some((range) => range.contains(address));
}

/**
 * The positions of a network that cannot be given, because the address of
 * either family is reserved; sorted, none twice, none next to another.
 */
export function reservedPositions(
  prefixes: DualStack<Prefix>,
  reserved: readonly AddressRange[],
): Positions[] {
  const found: Positions[] = [];
  for (const prefix of valuesOf(prefixes)) {
    const { address, size } = prefix;
    for (const { family, first, last } of reserved) {
      if (family !== prefix.family) continue;
      const from = first.value - address.value;
      const to = last.value - address.value;
      if (to < 0n || from >= size) continue;
      found.push({
        first: from < 0n ? 0n : from,
        last: to < size ? to : size - 1n,
      });
    }
  }
  return merge(found);
}

function merge(positions: readonly Positions[]): Positions[] {
  const merged: Positions[] = [];
  const sorted = positions.toSorted((a, b) => a.first < b.first ? -1 : 1);
  for (const { first, last } of sorted) {
    const before = merged.at(-1);
    if (before === undefined || before.last + 1n < first) {
      merged.push({ first, last });
    } else if (before.last < last) {
      merged[merged.length - 1] = { first: before.first, last };
    }
  }
  return merged;
}

/** Returns which blocks of a pool are reserved, as a whole or in part. */
export function reservedBlocks(
  { subnets, blockSizeBits, reserved }: Pick<
    Pool,
    "subnets" | "blockSizeBits" | "reserved"
  >,
): ReservedBlocks {
  const bits = BigInt(blockSizeBits);
  const size = 1n << bits;
  const whole: Span[] = [];
  const partly = new Map<number, number>();
  let base = 0n;
  const addPart = (block: bigint, count: bigint) => {
    const index = base + block;
    if (count === 0n || index >= BigInt(MAX_BLOCKS)) return;
    const before = partly.get(Number(index)) ?? 0;
    partly.set(Number(index), before + Number(count));
  };
  for (const subnet of subnets) {
    for (const { first, last } of reservedPositions(subnet, reserved)) {
      const [head, tail] = [first >> bits, last >> bits];
      if (head === tail && last - first + 1n < size) {
        addPart(head, last - first + 1n);
        continue;
      }
      const from = (first + size - 1n) >> bits;
      const to = ((last + 1n) >> bits) - 1n;
      addPart(head, (from << bits) - first);
      addPart(tail, last + 1n - ((to + 1n) << bits));
      addSpan(whole, base + from, base + to);
    }
    base += subnetCapacity(subnet, blockSizeBits);
  }
  return { whole: mergeSpans(whole), partly };
}

function addSpan(spans: Span[], first: bigint, last: bigint): void {
  const limit = BigInt(MAX_BLOCKS);
  if (first > last || first >= limit) return;
  spans.push({
    first: Number(first),
    last: Number(last < limit ? last : limit - 1n),
  });
}
