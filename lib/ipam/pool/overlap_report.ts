import {
  type Block,
  blockPrefixes,
  type Pool,
  type PoolOverlapReport,
  subnetEquals,
} from "../../api/mod.ts";
import { Overlaps, type PoolOverlap } from "./overlaps.ts";
import { PoolIndex } from "./index.ts";

/** The most that are named; of further ones their number is given. */
const MAX_NAMED = 4;

/** Says in a sentence what others have of the pool. */
export function overlapReport(
  pool: string,
  { subnets, misplaced, taken }: PoolOverlap,
): PoolOverlapReport {
  const shared = subnets.map(({ pool: other, subnet }) =>
    other === pool
      ? `${subnet} is in the pool twice`
      : `${subnet} is in AddressPool "${other}" too`
  );
  const parts = [
    ...new Set(shared.sort()),
    ...misplaced.map((name) =>
      `AddressBlock "${name}" has addresses of the pool, but not those of its index`
    ),
  ];
  const rest = parts.length - MAX_NAMED;
  const text = [
    ...parts.slice(0, MAX_NAMED),
    ...(rest > 0 ? [`${rest} more`] : []),
  ].join("; ");
  return {
    taken,
    message:
      `${text}. Blocks whose addresses are used elsewhere are not allocated`,
  };
}

/** What others have of each pool, by its name, from the objects alone. Pools that have nothing in common with others are not in it. */
export function poolOverlaps(
  pools: readonly Pool[],
  blocks: readonly Block[],
): Map<string, PoolOverlapReport> {
  const known = new Map(pools.map((pool) => [pool.name, pool]));
  const indices = new Map(pools.map(({ name }) => [name, new PoolIndex()]));
  const overlaps = new Overlaps((pool) => indices.get(pool));
  for (const pool of pools) overlaps.set(pool);
  for (const { name, pool, index, prefixes } of blocks) {
    const owner = known.get(pool);
    const usual = owner === undefined ? undefined : blockPrefixes(owner, index);
    indices.get(pool)?.add(index);
    if (usual === undefined || !subnetEquals(usual, prefixes)) {
      overlaps.setMisplaced(name, prefixes);
    }
  }
  const reports = new Map<string, PoolOverlapReport>();
  for (const { name } of pools) {
    const overlap = overlaps.of(name);
    if (overlap !== undefined) reports.set(name, overlapReport(name, overlap));
  }
  return reports;
}
