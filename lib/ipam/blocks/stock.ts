import type { AddressTable } from "../table/address_table.ts";
import type { PoolRoom, Stock } from "../base/ports.ts";

/** How many free addresses of a pool a node keeps in store, as a function of the block size. */
export interface WaterMarks {
  /** Below this the next block is fetched before a pod needs it. */
  readonly low: (blockSize: number) => number;
  /** Above this empty blocks go back. Not less than `low`, or blocks would be fetched and returned in turn. */
  readonly high: (blockSize: number) => number;
}

/** Nodes start few pods in the time that one request takes, so more than this in store does not help. */
const MAX_LOW = 16;

/** Blocks smaller than this are not fetched ahead: it would cost a pool of single addresses twice what it has to. */
const MIN_PREFETCH_SIZE = 4;

/**
 * A quarter of a block, at most 16 addresses, and twice that.
 *
 * A node that uses up to three quarters of its first block so holds no second one: a pool with one block per node
 * is not used up by the store.
 */
export const DEFAULT_WATER_MARKS: WaterMarks = {
  low: lowMark,
  high: (blockSize) => 2 * lowMark(blockSize),
};

function lowMark(blockSize: number): number {
  if (blockSize < MIN_PREFETCH_SIZE) return 0;
  return Math.min(Math.floor(blockSize / 4), MAX_LOW);
}

/** Keeps a pool of which pods use addresses between two marks, and nothing of others. */
export function waterStock({ low, high }: WaterMarks): Stock {
  return {
    short({ blockSize, free, held, waiting }) {
      const isInUse = blockSize > 0 && (held > 0 || waiting > 0);
      return isInUse ? low(blockSize) - free : 0;
    },
    isSpare: ({ size, freeCount }, { free, held }) =>
      free - freeCount >= (held > 0 ? high(size) : 0),
  };
}

/** What the node has of a pool. */
export function roomOf(
  table: AddressTable,
  pool: string,
  supply: { waiting(pool: string): number },
): PoolRoom {
  const { all: [block], free, held } = table.blocksOf(pool);
  const blockSize = block?.size ?? 0;
  return {
    pool,
    blockSize,
    free,
    held,
    waiting: supply.waiting(pool),
  };
}

/** How many addresses to ask for: one at least. */
export function wantedOf(room: PoolRoom, stock: Stock): number {
  return Math.max(1, room.waiting + Math.max(0, stock.short(room)));
}
