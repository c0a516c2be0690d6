import {
  type AddressBlock,
  addressBlockName,
  blockIndexOf,
  type Pool,
} from "../../../lib/api/mod.ts";
import { type Address, Prefix } from "../../../lib/inet/mod.ts";
import {
  GROUP_VERSION,
  NODE_LABEL,
  POOL_LABEL,
  RESERVED_LABEL,
} from "../../../lib/names/mod.ts";
import { sealed } from "./edited_blocks.ts";
import type { Finding } from "./finding.ts";
import type { V1Block } from "../v1/state.ts";

/** A block to reserve: nothing is given out of it, its node exports it. */
export interface ReservedBlock {
  readonly name: string;
  readonly pool: string;
  readonly node: string;
  readonly index: number;
  /** v1's block; its size may differ from that of the pool's blocks. */
  readonly prefix: Prefix;
}

/** Converts the blocks of nodes that exist. */
export function convertBlocks(
  blocks: readonly V1Block[],
  options: {
    readonly pools: readonly Pool[];
    readonly nodes: ReadonlySet<string>;
  },
): { blocks: ReservedBlock[]; findings: Finding[] } {
  const pools = new Map(options.pools.map((pool) => [pool.name, pool]));
  const reserved: ReservedBlock[] = [];
  const taken = new Set<string>();
  const findings: Finding[] = [];
  const gone = new Map<string, number>();
  for (const block of blocks) {
    const pool = pools.get(block.pool);
    const index = pool && blockIndexOf(pool, block.prefix.address);
    if (!options.nodes.has(block.node)) {
      gone.set(block.node, (gone.get(block.node) ?? 0) + 1);
    } else if (pool === undefined) {
      findings.push(
        loss(block, "unknown-pool", "the pool is not migrated"),
      );
    } else if (index === undefined) {
      findings.push(
        loss(block, "block-outside-pool", "it is in no subnet of its pool"),
      );
    } else {
      if (block.prefix.hostBits !== pool.blockSizeBits) {
        findings.push(otherSize(block, pool));
      }
      const name = nameOf(block, { pool, index, taken });
      taken.add(name);
      reserved.push({ ...block, index, name });
    }
  }
  findings.push(...nodesGone(gone), ...heldTwice(reserved));
  return { blocks: reserved, findings };
}

/** A block of one address, for a pod whose address is in no block of v1's. */
export function singleAddressBlock(
  address: Address,
  options: {
    readonly pool: Pool;
    readonly node: string;
    readonly index: number;
    readonly taken: ReadonlySet<string>;
  },
): ReservedBlock {
  const { pool, node, index } = options;
  const prefix = Prefix.host(address);
  const block = { pool: pool.name, node, prefix };
  return { ...block, index, name: nameOf(block, options) };
}

/** The AddressBlock of a reserved block: without owner and finalizer, as upstream's migrator makes it. */
export function addressBlockOf(block: ReservedBlock): AddressBlock {
  return sealed({
    apiVersion: GROUP_VERSION,
    kind: "AddressBlock",
    metadata: {
      name: block.name,
      labels: {
        [NODE_LABEL]: block.node,
        [POOL_LABEL]: block.pool,
        [RESERVED_LABEL]: "true",
      },
    },
    index: block.index,
    ipv4: block.prefix.toString(),
  });
}

/**
 * `POOL-INDEX-v1`, as upstream has it. What that leaves ambiguous, a block of another size than the pool's or a second
 * holder, is named by its prefix and node too, so that a block has the same name in every dump.
 */
function nameOf(
  block: V1Block,
  { pool, index, taken }: {
    readonly pool: Pool;
    readonly index: number;
    readonly taken: ReadonlySet<string>;
  },
): string {
  const { prefix, node } = block;
  const plain = `${addressBlockName(pool.name, index)}-v1`;
  const own = prefix.hostBits === pool.blockSizeBits
    ? plain
    : `${plain}-${prefix.address}-${prefix.length}`;
  return taken.has(own) ? `${own}-${node}` : own;
}

function loss(
  block: V1Block,
  kind: Finding["kind"],
  why: string,
): Finding {
  return {
    kind,
    severity: "loss",
    subject: blockText(block),
    message: `${why}, so it is not migrated; its pods lose their routes`,
  };
}

function otherSize(block: V1Block, pool: Pool): Finding {
  const size = 2 ** block.prefix.hostBits;
  return {
    kind: "block-of-other-size",
    severity: "warning",
    subject: blockText(block),
    message: `it has ${size} addresses, blocks of its pool have ${
      2 ** pool.blockSizeBits
    }; it is reserved as it is`,
  };
}

function nodesGone(gone: ReadonlyMap<string, number>): Finding[] {
  return [...gone].map(([node, count]) => ({
    kind: "node-gone",
    severity: "warning",
    subject: `node ${node}`,
    message: `it has ${count} ${
      count === 1 ? "block" : "blocks"
    } in v1, but there is no Node of that name; they are left out and can be given to other nodes`,
  }));
}

/** Sorted by prefix, an overlap is always with the widest block that began before. */
function heldTwice(blocks: readonly ReservedBlock[]): Finding[] {
  const findings: Finding[] = [];
  let widest: ReservedBlock | undefined;
  for (const block of blocks.toSorted((a, b) => a.prefix.compare(b.prefix))) {
    if (widest?.prefix.contains(block.prefix) !== true) {
      widest = block;
      continue;
    }
    findings.push({
      kind: "block-held-twice",
      severity: "warning",
      subject: blockText(block),
      message:
        `it shares addresses with ${widest.prefix} of pool ${widest.pool} on node ${widest.node}; both are reserved and exported, as in v1`,
    });
  }
  return findings;
}

function blockText({ prefix, pool, node }: V1Block): string {
  return `block ${prefix} of pool ${pool} on node ${node}`;
}
