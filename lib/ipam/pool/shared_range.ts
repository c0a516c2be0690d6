import {
  MAX_BLOCKS,
  type Pool,
  type Span,
  subnetCapacity,
} from "../../api/mod.ts";
import { type DualStack, FAMILIES, type Prefix } from "../../inet/mod.ts";

/** Addresses that two pools have in common, as the blocks of each that cover them. */
export interface SharedRange {
  /** Name of the other pool; a pool can overlap itself. */
  readonly other: string;
  /** The addresses. */
  readonly subnet: Prefix;
  readonly ours: Span;
  readonly theirs: Span;
  /** A block of theirs has 2 to the power of this many times the addresses of ours. */
  readonly ratioBits: number;
}

/** Finds the addresses that a pool has in common with another, or in two of its own subnets if both are the same. */
export function sharedRanges(pool: Pool, other: Pool): SharedRange[] {
  const ranges: SharedRange[] = [];
  const theirs = locate(other);
  for (const [position, own] of locate(pool).entries()) {
    for (const [otherPosition, their] of theirs.entries()) {
      if (pool.name === other.name && position === otherPosition) continue;
      for (const family of FAMILIES) {
        const a = own.subnet[family];
        const b = their.subnet[family];
        if (a === undefined || b?.overlaps(a) !== true) continue;
        const subnet = smallerOf(a, b);
        const ourSpan = spanOf(subnet, a, { ...own, ...pool });
        const theirSpan = spanOf(subnet, b, { ...their, ...other });
        if (ourSpan === undefined || theirSpan === undefined) continue;
        ranges.push({
          other: other.name,
          subnet,
          ours: ourSpan,
          theirs: theirSpan,
          ratioBits: other.blockSizeBits - pool.blockSizeBits,
        });
      }
    }
  }
  return ranges;
}

/** The other pool's blocks that overlap ours with the index. */
export function theirBlocks(
  { ours, theirs, ratioBits }: SharedRange,
  index: number,
): Span | undefined {
  return project(index, { from: ours, to: theirs, ratioBits });
}

/** Our blocks that overlap the other pool's with the index. */
export function ourBlocks(
  { ours, theirs, ratioBits }: SharedRange,
  index: number,
): Span | undefined {
  return project(index, { from: theirs, to: ours, ratioBits: -ratioBits });
}

/** The blocks of a pool that have addresses of the prefixes. */
export function coveringBlocks(
  pool: Pool,
  prefixes: DualStack<Prefix>,
): Span[] {
  const spans: Span[] = [];
  for (const { subnet, base } of locate(pool)) {
    for (const family of FAMILIES) {
      const a = subnet[family];
      const b = prefixes[family];
      if (a === undefined || b?.overlaps(a) !== true) continue;
      const span = spanOf(smallerOf(a, b), a, { ...pool, base });
      if (span !== undefined) spans.push(span);
    }
  }
  return spans;
}

/** What two prefixes that overlap have in common. */
function smallerOf(a: Prefix, b: Prefix): Prefix {
  // mutate: those of one length that overlap are the same.
  return a.length >= b.length ? a : b;
}

/**
 * Both spans start at the same address, unless one block covers it all; and
 * the smaller blocks cut the larger ones evenly. So indices are enough.
 */
function project(
  index: number,
  { from, to, ratioBits }: { from: Span; to: Span; ratioBits: number },
): Span | undefined {
  if (index < from.first || index > from.last) return undefined;
  const offset = index - from.first;
  const ratio = 2 ** Math.abs(ratioBits);
  if (ratioBits >= 0) {
    const found = to.first + Math.floor(offset / ratio);
    return found > to.last ? undefined : { first: found, last: found };
  }
  const first = to.first + offset * ratio;
  // mutate: the first one is even, and the last one of a pool that is cut off odd.
  if (first > to.last) return undefined;
  return { first, last: Math.min(first + ratio - 1, to.last) };
}

interface Located {
  readonly subnet: DualStack<Prefix>;
  /** Index of its first block. */
  readonly base: bigint;
}

function locate({ subnets, blockSizeBits }: Pool): Located[] {
  let base = 0n;
  return subnets.map((subnet) => {
    const located = { subnet, base };
    base += subnetCapacity(subnet, blockSizeBits);
    return located;
  });
}

/** The blocks of a pool's subnet that cover a part of it. */
function spanOf(
  part: Prefix,
  subnet: Prefix,
  { base, blockSizeBits }: { base: bigint; blockSizeBits: number },
): Span | undefined {
  const offset = part.address.value - subnet.address.value;
  const bits = BigInt(blockSizeBits);
  const first = base + (offset >> bits);
  const last = base + ((offset + part.size - 1n) >> bits);
  const limit = BigInt(MAX_BLOCKS);
  if (first >= limit) return undefined;
  return {
    first: Number(first),
    last: Number(last < limit ? last : limit - 1n),
  };
}
