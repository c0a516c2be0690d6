import type { DualStack, Prefix } from "../../inet/mod.ts";
import type { AddressTable } from "./address_table.ts";
import { stateOf } from "./holder.ts";
import type { HeldBlock, Hold } from "./held_block.ts";

/** A block of this node, as others see it. Counts are of addresses per family. */
export interface BlockRecord {
  readonly name: string;
  readonly pool: string;
  readonly uid: string;
  readonly index: number;
  readonly prefixes: DualStack<Prefix>;
  /** Why nothing is given out of it; empty for a usable block. */
  readonly holds: readonly Hold[];
  readonly size: number;
  /** Addresses that attachments hold. */
  readonly held: number;
  /** Addresses that rest after use. */
  readonly cooling: number;
  readonly free: number;
}

/** Numbers of one pool on this node. Addresses are counted per family: a dual-stack pair is one. */
export interface PoolStats {
  readonly pool: string;
  readonly blocks: number;
  readonly unusableBlocks: number;
  readonly addresses: number;
  /** Addresses that can be given. */
  readonly free: number;
  readonly used: number;
  readonly releasing: number;
  readonly quarantined: number;
  readonly cooling: number;
  /** Addresses that are never given, and that no pod has. */
  readonly reserved: number;
  /** Allocations that wait for a block. */
  readonly waiting: number;
  /** Whether a request for a block is under way. */
  readonly requesting: boolean;
}

/** Makes the public view of a block. */
export function blockRecordOf(block: HeldBlock): BlockRecord {
  const { name, pool, uid, index, prefixes } = block.info;
  return {
    name,
    pool,
    uid,
    index,
    prefixes,
    holds: [...block.holds].sort(),
    size: block.size,
    held: block.heldCount,
    cooling: block.coolingCount,
    free: block.freeCount,
  };
}

/** Counts a pool. Attachments count where their pod says they belong, also without a block. */
export function statsOf(
  table: AddressTable,
  pool: string,
  supply: Pick<PoolStats, "waiting" | "requesting">,
): PoolStats {
  const { all: blocks, free, cooling } = table.blocksOf(pool);
  const states = { used: 0, releasing: 0, quarantined: 0 };
  for (const attachment of table.attachments.values()) {
    if (attachment.pool === pool) states[stateOf(attachment)]++;
  }
  const sum = (count: (block: HeldBlock) => number) =>
    blocks.reduce((total, block) => total + count(block), 0);
  return {
    pool,
    blocks: blocks.length,
    unusableBlocks: sum((block) => block.isPromising ? 0 : 1),
    addresses: sum((block) => block.size),
    free,
    cooling,
    reserved: sum((block) => block.reservedCount),
    ...states,
    ...supply,
  };
}
