import type { BlockSource, PoolState } from "../base/ports.ts";
import type { AddressTable } from "../table/address_table.ts";
import type { BlockSupply } from "./block_supply.ts";
import type { Settings } from "./context.ts";
import type { HeldBlock } from "../table/held_block.ts";
import { roomOf } from "./stock.ts";

/** The input of the decision, besides the table. */
export interface Situation extends
  Pick<
    Settings,
    "stock" | "returnDelayMs" | "ampleReturnDelayMs" | "jitterOf"
  > {
  readonly now: number;
  readonly source: Pick<BlockSource, "poolState" | "releaseGroup">;
  readonly supply: Pick<BlockSupply, "waiting" | "pausedUntil">;
  /** Which state each pool has, by name, and since when. */
  readonly states: ReadonlyMap<string, PoolStateSince>;
  /** Blocks whose return is under way. */
  readonly flying: ReadonlySet<HeldBlock>;
}

/** A pool's state, and since when it has had it. */
export interface PoolStateSince {
  readonly state: PoolState;
  readonly since: number;
}

/** Decision about a node's blocks. */
export interface Decision {
  /** Pools to ask for another block, before a pod needs it. */
  readonly fetch: readonly string[];
  /** Blocks that go back: no more addresses are given out of them. */
  readonly retire: readonly HeldBlock[];
  /** Those of them, and of earlier ones, whose return is to be tried now, by groups. */
  readonly giveBack: readonly (readonly HeldBlock[])[];
  /** Blocks that stay after all: a pod with an address of them turned up in the kernel. */
  readonly keep: readonly HeldBlock[];
  /** When to decide again at the latest. */
  readonly dueAt: number;
}

/** While a pool has few blocks left, or a block is reserved as a whole, it does not stay empty for longer. */
const LOW_MS = 30_000;
/**
 * While a pool is paused, blocks go spread over so long: an admin waits for them,
 * and of 5,000 nodes not all at once. One each is 83 in a second, with three requests each.
 */
const PAUSED_MS = 60_000;

/** The most calls under way at a time that give blocks back. */
const MAX_FLYING = 8;

/** Decides which blocks a node gets and gives back. Pure: looks at the whole table after any change. */
export function decide(table: AddressTable, situation: Situation): Decision {
  const { now, flying, stock } = situation;
  const fetch: string[] = [];
  const retire: HeldBlock[] = [];
  const ready: HeldBlock[] = [];
  const keep: HeldBlock[] = [];
  const later: number[] = [];
  for (const pool of new Set([...table.pools, ...stock.pools ?? []])) {
    const fetchAt = fetchTime(table, pool, situation);
    if (fetchAt > now) later.push(fetchAt);
    else fetch.push(pool);

    const retiring = retirements(table, pool, situation);
    retire.push(...retiring.blocks);
    later.push(...retiring.later);
  }
  const returning = table.pools
    .flatMap((pool) => [...table.blocksOf(pool).returning]);
  for (const block of [...returning, ...retire]) {
    if (flying.has(block)) continue;
    const { asked = false, retryAt = now } = block.giveBack ?? {};
    if (!block.isEmpty) {
      if (!asked) keep.push(block);
    } else if (retryAt > now) later.push(retryAt);
    else ready.push(block);
  }
  const { coolingUntil = Infinity } = table;
  const dueAt = Math.min(coolingUntil, ...later);
  const giveBack = inGroups(ready, situation);
  return { fetch, retire, giveBack, keep, dueAt };
}

/** The calls to make, without those groups that have one under way. */
function inGroups(
  blocks: readonly HeldBlock[],
  { flying, source }: Situation,
): HeldBlock[][] {
  const groupOf = ({ info }: HeldBlock) =>
    source.releaseGroup?.(info) ?? info.uid;
  const busy = new Set([...flying].map(groupOf));
  return [...Map.groupBy(blocks, groupOf)]
    .filter(([group]) => !busy.has(group))
    .slice(0, MAX_FLYING - busy.size)
    .map(([, members]) => members);
}

/** Of a pool in one of these states there is no block to be had. */
const GIVE_NOTHING: readonly PoolState[] = ["absent", "deleting", "paused"];

/** When to ask for another block of a pool: when its store lacks something. */
function fetchTime(
  table: AddressTable,
  pool: string,
  { now, source, supply, stock }: Situation,
): number {
  if (stock.short(roomOf(table, pool, supply)) <= 0) return Infinity;
  const state = source.poolState(pool);
  if (GIVE_NOTHING.includes(state)) return Infinity;
  return Math.max(now, supply.pausedUntil(pool));
}

/** Which blocks of a pool go now, and when others do: the highest first, so that a node's blocks gather at the low end. */
function retirements(
  table: AddressTable,
  pool: string,
  situation: Situation,
): { readonly blocks: HeldBlock[]; readonly later: number[] } {
  const { now, source, supply, stock } = situation;
  const state = source.poolState(pool);
  const blocks: HeldBlock[] = [];
  const later: number[] = [];
  let room = roomOf(table, pool, supply);
  for (const block of table.blocksOf(pool).empty.toReversed()) {
    if (!mayGo(block)) continue;
    const mustGo = state === "deleting" || block.holds.has("deleting") ||
      block.holds.has("edited");
    if (mustGo) {
      blocks.push(block);
      continue;
    }
    // Those who wait keep all blocks of the pool until they have been served.
    // A block that is reserved as a whole, or whose pool is paused, is useless.
    const isOfUse = block.freeCount > 0 && state !== "paused";
    if (isOfUse && (room.waiting > 0 || !stock.isSpare(block, room))) continue;
    const at = returnTime(block, situation);
    if (at > now) later.push(at);
    else {
      blocks.push(block);
      room = { ...room, free: room.free - block.freeCount };
    }
  }
  return { blocks, later };
}

/** When a block that is not needed goes. */
function returnTime(
  { emptySince, freeCount, info: { name, pool } }: HeldBlock,
  { returnDelayMs, ampleReturnDelayMs, states, jitterOf }: Situation,
): number {
  const jitter = jitterOf(name);
  const after = (delayMs: number) => emptySince + delayMs * (0.5 + jitter);
  const soonMs = Math.min(LOW_MS, returnDelayMs);
  // An admin who reserves all of it wants to see it gone.
  if (freeCount === 0) return after(soonMs);
  const latest = after(ampleReturnDelayMs);
  const { state, since = -Infinity } = states.get(pool) ?? {};
  if (state === "ample") return latest;
  if (state === "paused") {
    // No pod will need it again, however short it has been empty.
    const spreadMs = Math.min(PAUSED_MS, returnDelayMs);
    return Math.max(emptySince, since) + spreadMs * jitter;
  }
  // Of a pool that is low within that time, though not all at its end: a job that ends leaves blocks on many nodes.
  const [at, spreadMs] = state === "low"
    ? [emptySince + soonMs * (1 + jitter) / 2, soonMs]
    : [after(returnDelayMs), returnDelayMs];
  // When a pool gets scarcer, not all that have been empty for long go at once.
  return Math.min(latest, Math.max(at, since + spreadMs * jitter));
}

function mayGo(block: HeldBlock): boolean {
  if (block.holds.has("unconfirmed")) return false;
  if (block.holds.has("deleting")) return true;
  // A block taken over from Coil v1 has users that are not known here. One that overlaps another would only be
  // granted again, so it is kept and reported.
  return !block.holds.has("reserved") && !block.holds.has("overlapping") &&
    !block.holds.has("unexported");
}
