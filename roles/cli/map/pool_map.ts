import {
  type AddressBlock,
  type AddressPool,
  indexedSubnets,
  type Pool,
  poolOf,
  reservedPositions,
  tryBlockOf,
  tryPoolOf,
} from "../../../lib/api/mod.ts";
import {
  Address,
  type DualStack,
  FAMILIES,
  mapDualStack,
  Prefix,
} from "../../../lib/inet/mod.ts";
import { POOL_LABEL } from "../../../lib/names/mod.ts";
import {
  type AddressRow,
  addressRows,
  type BlockRow,
  blockRows,
  type PodAddresses,
  type PoolRow,
  poolRows,
} from "../ipam/rows.ts";

/** What a map is made of, of all pools and nodes: others may have addresses of the pool, too. */
export interface MapSource {
  readonly pools: readonly AddressPool[];
  readonly blocks: readonly AddressBlock[];
  readonly pods: readonly PodAddresses[];
}

/** Some of the blocks of a pool: those of one of its subnets. */
export interface SubnetMap {
  readonly ipv4?: string;
  readonly ipv6?: string;
  /** Index of its first block. */
  readonly firstBlock: number;
  /** How many blocks it has. */
  readonly blocks: number;
}

/** A block, and who holds its addresses. */
export interface BlockMap extends BlockRow {
  readonly addresses: readonly AddressRow[];
  /** Positions that spec.reserved of the pool keeps from pods; sorted, none twice. Of a range that is very long its start. */
  readonly reserved: readonly number[];
}

/** Positions of a range that are listed: all of an IPv4 block. One of IPv6 may have 2^64. */
const MAX_LISTED = 65_536;

/** A pool with all that is in it. */
export interface PoolMap {
  readonly pool: PoolRow;
  readonly subnets: readonly SubnetMap[];
  readonly blocks: readonly BlockMap[];
  /** Pods with addresses of the pool that are in none of its blocks. */
  readonly outside: readonly AddressRow[];
}

/**
 * Makes the map of a pool. Pure.
 *
 * @throws {SyntaxError} when the pool's subnets cannot be read
 */
export function poolMap(object: AddressPool, source: MapSource): PoolMap {
  return mapOf(poolOf(object), rowsOf(source));
}

/** Makes the maps of all pools; of one whose subnets cannot be read there is only its row. Pure. */
export function poolMaps(source: MapSource): PoolMap[] {
  const rows = rowsOf(source);
  return rows.pools.map((pool) => {
    const object = source.pools.find(({ metadata }) =>
      metadata.name === pool.name
    );
    const readable = object === undefined ? undefined : tryPoolOf(object);
    return readable === undefined
      ? { pool, subnets: [], blocks: [], outside: [] }
      : mapOf(readable, rows);
  });
}

/** What the maps of all pools are made of. */
interface Rows {
  readonly pools: readonly PoolRow[];
  readonly blocks: ReadonlyMap<string, readonly BlockRow[]>;
  readonly addresses: ReadonlyMap<string | undefined, readonly AddressRow[]>;
  readonly objects: readonly AddressBlock[];
}

function rowsOf(source: MapSource): Rows {
  const pools = source.pools.flatMap((each) => tryPoolOf(each) ?? []);
  return {
    pools: poolRows(source.pools, source.blocks),
    blocks: Map.groupBy(
      blockRows(source.blocks, source.pods),
      ({ pool }) => pool,
    ),
    addresses: Map.groupBy(
      addressRows({ ...source, pools }),
      ({ pool }) => pool,
    ),
    objects: source.blocks,
  };
}

function mapOf(pool: Pool, rows: Rows): PoolMap {
  const row = rows.pools.find(({ name }) => name === pool.name);
  if (row === undefined) {
    throw new RangeError(`Cannot map AddressPool "${pool.name}": not listed`);
  }
  const byBlock = Map.groupBy(
    rows.addresses.get(pool.name) ?? [],
    ({ block }) => block,
  );
  const reserved = reservedPlaces(rows.objects, pool);
  const blocks = (rows.blocks.get(pool.name) ?? []).map((block) => ({
    ...block,
    addresses: byBlock.get(block.name) ?? [],
    reserved: reserved.get(block.name) ?? [],
  }));
  return {
    pool: row,
    subnets: subnetMaps(pool),
    blocks,
    outside: byBlock.get(undefined) ?? [],
  };
}

/** Positions in the pool's blocks, by their names. */
function reservedPlaces(
  blocks: readonly AddressBlock[],
  { name, reserved }: Pool,
): ReadonlyMap<string, readonly number[]> {
  const own = blocks.filter(({ metadata }) =>
    metadata.labels?.[POOL_LABEL] === name
  );
  const placesOf = (block: AddressBlock) =>
    reservedPositions(tryBlockOf(block)?.prefixes ?? {}, reserved)
      .flatMap(({ first, last }) =>
        Array.from(
          { length: Math.min(Number(last - first) + 1, MAX_LISTED) },
          (_, n) => Number(first) + n,
        )
      );
  return new Map(
    own.map((block) => [block.metadata.name ?? "", placesOf(block)]),
  );
}

function subnetMaps(pool: Pool): SubnetMap[] {
  return indexedSubnets(pool).map(({ subnet, start, end }) => ({
    ...mapDualStack(subnet, (prefix) => prefix.toString()),
    firstBlock: start,
    blocks: end - start,
  }));
}

/** Positions in a block, or a subnet, of the addresses that a pod has of it: one, unless its two families differ. */
export function positionsOf(
  block: DualStack<string>,
  row: AddressRow,
): bigint[] {
  const positions = FAMILIES.flatMap((family) => {
    const prefix = Prefix.tryParse(block[family] ?? "");
    const address = Address.tryParse(row[family] ?? "");
    return prefix !== undefined && address !== undefined &&
        prefix.contains(address)
      ? [prefix.indexOf(address)]
      : [];
  });
  return [...new Set(positions)];
}
