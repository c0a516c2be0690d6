import {
  type AddressRow,
  addressRows,
  type BlockRow,
  blockRows,
  type PodAddresses,
  readableBlocks,
} from "../../../lib/ipam/audit/mod.ts";
import {
  type AddressBlock,
  type AddressPool,
  indexedSubnets,
  type Pool,
  reservedPositions,
  tryBlockOf,
  tryPoolOf,
  vpcBlocksOf,
  type VpcNode,
  type VpcNodeEni,
} from "../../../lib/api/mod.ts";
import {
  Address,
  type DualStack,
  FAMILIES,
  mapDualStack,
  Prefix,
} from "../../../lib/inet/mod.ts";
import { compareText, POOL_LABEL, VPC_POOL } from "../../../lib/names/mod.ts";
import { type PoolRow, poolRows } from "../ipam/rows.ts";
import { vpcPoolRows } from "../ipam/vpc_rows.ts";

/** Input of a map, of all pools and nodes: others may have addresses of the pool, too. */
export interface MapSource {
  readonly pools: readonly AddressPool[];
  readonly blocks: readonly AddressBlock[];
  readonly pods: readonly PodAddresses[];
  readonly vpcNodes?: readonly VpcNode[] | undefined;
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

/** A network interface of an instance. */
export interface EniMap extends VpcNodeEni {
  readonly node: string;
}

/** A pool with all that is in it. */
export interface PoolMap {
  readonly pool: PoolRow;
  /** Of pool `vpc`, which has no subnets; by node, lowest device first. */
  readonly enis?: readonly EniMap[];
  readonly subnets: readonly SubnetMap[];
  readonly blocks: readonly BlockMap[];
  /** Pods with addresses of the pool that are in none of its blocks. */
  readonly outside: readonly AddressRow[];
}

/** The map of pool `vpc`; none where no node shows its VPC. */
function vpcMaps({ vpcNodes = [] }: MapSource, rows: Rows): PoolMap[] {
  const enis = vpcNodes.flatMap(({ metadata: { name: node = "" }, status }) =>
    (status?.enis ?? []).map((eni): EniMap => ({ node, ...eni }))
  ).sort((a, b) => compareText(a.node, b.node) || a.device - b.device);
  const contents = contentsOf(VPC_POOL, rows);
  return vpcPoolRows(vpcNodes)
    .map((pool) => ({ ...contents, pool, subnets: [], enis }));
}

/** Makes the maps of all pools, also of pool `vpc`; of one whose subnets cannot be read there is only its row. Pure. */
export function poolMaps(source: MapSource): PoolMap[] {
  const rows = rowsOf(source);
  return [
    ...rows.pools.map((pool) => {
      const object = source.pools.find(({ metadata }) =>
        metadata.name === pool.name
      );
      const readable = object && tryPoolOf(object);
      if (readable === undefined) {
        return { pool, subnets: [], blocks: [], outside: [] };
      }
      const reserved = reservedPlaces(source.blocks, readable);
      return {
        pool,
        subnets: subnetMaps(readable),
        ...contentsOf(pool.name, rows, reserved),
      };
    }),
    ...vpcMaps(source, rows),
  ];
}

interface Rows {
  readonly pools: readonly PoolRow[];
  readonly blocks: ReadonlyMap<string, readonly BlockRow[]>;
  readonly addresses: ReadonlyMap<string | undefined, readonly AddressRow[]>;
}

function rowsOf({ vpcNodes = [], ...source }: MapSource): Rows {
  const pools = source.pools.flatMap((each) => tryPoolOf(each) ?? []);
  const blocks = [...source.blocks, ...vpcNodes.flatMap(vpcBlocksOf)];
  const names = vpcNodes.map(({ metadata }) => metadata.name ?? "");
  return {
    pools: poolRows(source.pools, source.blocks),
    blocks: Map.groupBy(blockRows(blocks, source.pods), ({ pool }) => pool),
    addresses: Map.groupBy(
      addressRows({
        pods: source.pods,
        blocks: readableBlocks(blocks),
        pools,
        vpcNodes: new Set(names),
      }),
      ({ pool }) => pool,
    ),
  };
}

/** A pool's blocks with the pods that have their addresses, and pods with others of its addresses. */
function contentsOf(
  pool: string,
  rows: Rows,
  reserved: ReadonlyMap<string, readonly number[]> = new Map(),
): Pick<PoolMap, "blocks" | "outside"> {
  const byBlock = Map.groupBy(
    rows.addresses.get(pool) ?? [],
    ({ block }) => block,
  );
  const blocks = (rows.blocks.get(pool) ?? []).map((block) => ({
    ...block,
    addresses: byBlock.get(block.name) ?? [],
    reserved: reserved.get(block.name) ?? [],
  }));
  return { blocks, outside: byBlock.get(undefined) ?? [] };
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
