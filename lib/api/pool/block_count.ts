import { FAMILIES, type Family } from "../../inet/mod.ts";
import { indexedSubnets, type Pool, stackOf } from "./pool.ts";
import type { ReservedBlocks } from "./reserved.ts";
import { mergeSpans, type Span, spanAt } from "./span.ts";

/** Numbers of blocks. */
export interface BlockCount {
  total: number;
  allocated: number;
  free: number;
  /** Addresses of the free ones that cannot be given. */
  reserved: number;
}

const NONE: BlockCount = { total: 0, allocated: 0, free: 0, reserved: 0 };

/** Numbers of blocks with addresses of each family; pools older than the rule against it may mix. */
export function countBlocks(
  pool: Pool,
  { allocated, taken: used, reserved }: {
    readonly allocated: Iterable<number>;
    /** Blocks whose addresses others have; sorted, none twice. */
    readonly taken: readonly Span[];
    readonly reserved: ReservedBlocks;
  },
): { blocks: BlockCount; families: Map<Family, BlockCount> } {
  const segments = segmentsOf(pool);
  const taken = mergeSpans([...used, ...reserved.whole]);
  const tallies = segments.map(({ start, end }) => {
    let lost = 0;
    for (const { first, last } of taken) {
      lost += Math.max(0, Math.min(last + 1, end) - Math.max(first, start));
    }
    const total = end - start;
    return { total, allocated: 0, free: total - lost, reserved: 0 };
  });
  // Without functions and lists for each of 50,000 blocks, whose garbage is 20 MB.
  const tallyOf = (index: number) => {
    let position = 0;
    while (index >= (segments[position]?.end ?? Infinity)) position++;
    return tallies[position];
  };
  const existing = new Set(reserved.partly.size > 0 ? allocated : []);
  for (const [index, count] of reserved.partly) {
    const tally = tallyOf(index);
    const isFree = !existing.has(index) && spanAt(taken, index) === undefined;
    if (tally !== undefined && isFree) tally.reserved += count;
  }
  for (const index of allocated) {
    const tally = tallyOf(index);
    if (tally === undefined) continue;
    tally.allocated++;
    if (spanAt(taken, index) === undefined) tally.free--;
  }
  const families = new Map<Family, BlockCount>();
  const blocks = { ...NONE };
  for (const [position, segment] of segments.entries()) {
    const tally = tallies[position];
    if (tally === undefined) continue;
    addCount(blocks, tally);
    for (const family of segment.families) {
      addCount(families.getOrInsert(family, { ...NONE }), tally);
    }
  }
  return { blocks, families };
}

function addCount(sum: BlockCount, more: BlockCount): void {
  sum.total += more.total;
  sum.allocated += more.allocated;
  sum.free += more.free;
  sum.reserved += more.reserved;
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
  let previous = "";
  for (const { subnet, start, end } of indexedSubnets(pool)) {
    const last = segments.at(-1);
    if (last !== undefined && previous === stackOf(subnet)) {
      segments[segments.length - 1] = { ...last, end };
    } else {
      const families = FAMILIES.filter((f) => subnet[f] !== undefined);
      segments.push({ families, start, end });
    }
    previous = stackOf(subnet);
  }
  return segments;
}
