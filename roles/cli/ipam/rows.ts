import {
  type AddressBlock,
  type AddressCounts,
  type AddressPool,
  type BlockCounts,
  type Pool,
  poolOf,
  type PoolOverlapReport,
  poolStatus,
  tryPoolOf,
} from "../../../lib/api/mod.ts";
import {
  definedOnly,
  labelOf,
  readableBlocks,
} from "../../../lib/ipam/audit/mod.ts";
import { poolOverlaps } from "../../../lib/ipam/mod.ts";
import { compareText, NODE_LABEL, POOL_LABEL } from "../../../lib/names/mod.ts";

/** One pool and its free addresses and blocks. */
export interface PoolRow {
  readonly name: string;
  /** Addresses in a block; a decimal number as text. */
  readonly blockSize?: string;
  readonly subnets: readonly string[];
  readonly blocks?: BlockCounts;
  /** Nodes that hold a block of it. */
  readonly nodes: number;
  readonly ipv4?: AddressCounts;
  readonly ipv6?: AddressCounts;
  /** `Available`, or why no node gets a block. */
  readonly state: string;
  readonly message: string;
  /** RFC 3339 time. */
  readonly created?: string;
}

/** Computes the rows of pools from all pools and blocks alone, so that they are right while no controller runs. */
export function poolRows(
  pools: readonly AddressPool[],
  blocks: readonly AddressBlock[],
): PoolRow[] {
  const overlaps = poolOverlaps(
    pools.flatMap((object) => tryPoolOf(object) ?? []),
    readableBlocks(blocks),
  );
  const byPool = Map.groupBy(blocks, (b) => labelOf(b, POOL_LABEL));
  return [...pools].sort(byName).map((object) => {
    const name = object.metadata.name ?? "";
    const own = byPool.get(name) ?? [];
    const nodes = new Set(own.map((block) => labelOf(block, NODE_LABEL)));
    return {
      name,
      subnets: object.spec.subnets.map(({ ipv4, ipv6 }) =>
        [ipv4, ipv6].filter((cidr) => cidr !== undefined).join("+")
      ),
      nodes: nodes.size,
      ...countsOf(object, own, overlaps.get(name)),
      ...definedOnly({ created: object.metadata.creationTimestamp }),
    };
  });
}

function countsOf(
  object: AddressPool,
  blocks: readonly AddressBlock[],
  overlap: PoolOverlapReport | undefined,
): Pick<
  PoolRow,
  "blockSize" | "blocks" | "ipv4" | "ipv6" | "state" | "message"
> {
  let pool: Pool;
  try {
    pool = poolOf(object);
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    return { state: "InvalidSpec", message: error.message };
  }
  const { blocks: counts, ipv4, ipv6, conditions } = poolStatus(pool, {
    allocated: blocks.map(({ index }) => index),
    overlap,
    now: new Date(0),
  });
  const ready = conditions?.find(({ type }) => type === "Ready");
  return {
    blockSize: (1n << BigInt(pool.blockSizeBits)).toString(),
    ...definedOnly({ blocks: counts, ipv4, ipv6 }),
    state: ready?.status === "True" ? "Available" : ready?.reason ?? "",
    message: [ready?.message, overlap?.message].filter(Boolean).join("; "),
  };
}

function byName(a: AddressPool, b: AddressPool): number {
  return compareText(a.metadata.name ?? "", b.metadata.name ?? "");
}
