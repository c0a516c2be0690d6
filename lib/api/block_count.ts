import { FAMILIES, type Family } from "../inet/mod.ts";
import { MAX_BLOCKS, type Pool, stackOf, subnetCapacity } from "./pool.ts";

/** Indices from `first` to `last`, both included. */
export interface Span {
  readonly first: number;
  readonly last: number;
}

/** Numbers of blocks. */
export interface BlockCount {
  total: number;
  allocated: number;
  free: number;
}

/** Numbers of blocks with addresses of each family; pools older than the rule against it may mix. */
export function countBlocks(
  pool: Pool,
  { allocated, taken }: {
    allocated: Iterable<number>;
    taken: readonly Span[];
  },
): { blocks: BlockCount; families: Map<Family, BlockCount> } {
  const segments = segmentsOf(pool);
  const tallies = segments.map(({ start, end }) => {
    let lost = 0;
    for (const { first, last } of taken) {
      lost += Math.max(0, Math.min(last + 1, end) - Math.max(first, start));
    }
    return { total: end - start, allocated: 0, free: end - start - lost };
  });
  const isTaken = spanFinder(taken);
  for (const index of allocated) {
    const tally = tallies[segments.findIndex(({ end }) => index < end)];
    if (tally === undefined) continue;
    tally.allocated++;
    if (!isTaken(index)) tally.free--;
  }
  const families = new Map<Family, BlockCount>();
  const blocks = { total: 0, allocated: 0, free: 0 };
  for (const [position, segment] of segments.entries()) {
    const tally = tallies[position];
    if (tally === undefined) continue;
    addCount(blocks, tally);
    for (const family of segment.families) {
      const count = families.get(family) ?? { total: 0, allocated: 0, free: 0 };
      addCount(count, tally);
      families.set(family, count);
    }
  }
  return { blocks, families };
}

function addCount(
  sum: BlockCount,
  { total, allocated, free }: BlockCount,
): void {
  sum.total += total;
  sum.allocated += allocated;
  sum.free += free;
}

/** Tells whether an index is in one of the spans, which are sorted. */
function spanFinder(
  spans: readonly Span[],
): (index: number) => boolean {
  return (index) => {
    let [low, high] = [0, spans.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((spans[middle]?.last ?? index) < index) low = middle + 1;
      else high = middle;
    }
    return (spans[low]?.first ?? Infinity) <= index;
  };
}

interface Segment {
  readonly families: readonly Family[];
  /** Index of the first block. */
  readonly start: number;
  /** Index after the last block. */
  readonly end: number;
}

/** Block indices of each subnet; neighbours with the same families are one segment. */
function segmentsOf(pool: Pool): Segment[] {
  const segments: Segment[] = [];
  let start = 0;
  let previous = "";
  for (const subnet of pool.subnets) {
    const size = subnetCapacity(subnet, pool.blockSizeBits);
    const room = MAX_BLOCKS - start;
    const end = start + (size > BigInt(room) ? room : Number(size));
    const last = segments.at(-1);
    if (last !== undefined && previous === stackOf(subnet)) {
      segments[segments.length - 1] = { ...last, end };
    } else {
      const families = FAMILIES.filter((f) => subnet[f] !== undefined);
      segments.push({ families, start, end });
    }
    previous = stackOf(subnet);
    start = end;
  }
  return segments;
}
