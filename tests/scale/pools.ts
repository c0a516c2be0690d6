// The pools of a cluster: how many blocks nodes hold, and what coild makes of it.
import {
  CAPACITY_LOW_PERCENT,
  CAPACITY_OK_PERCENT,
  CONDITION_CAPACITY_LOW,
} from "../../lib/api/pool/pool_capacity.ts";
import { GROUP_VERSION } from "../../lib/names/mod.ts";
import {
  type KnownPool,
  type PoolCapacity,
  transformPool,
} from "../../roles/coild/cluster/transform.ts";
import type { ClusterSize } from "./size.ts";

interface ModelPool {
  blocks: number;
  known?: KnownPool;
}

/** Counts of blocks by the pool's number. */
export class Pools {
  readonly #total: number;
  readonly #times: number;
  readonly #pools: readonly ModelPool[];
  #blocks = 0;

  constructor(
    { pools, poolBlocks, sampleOf = 1 }: Pick<
      ClusterSize,
      "pools" | "poolBlocks" | "sampleOf"
    >,
  ) {
    this.#total = poolBlocks;
    this.#times = sampleOf;
    this.#pools = Array.from({ length: pools }, () => ({ blocks: 0 }));
  }

  /** Blocks of all nodes. */
  get blocks(): number {
    return this.#blocks;
  }

  /** What coild makes of a pool. */
  capacityOf(index: number): PoolCapacity | undefined {
    return this.#pools[index]?.known?.capacity;
  }

  /** Whether no block is left. */
  isUsedUp(index: number): boolean {
    return (this.#pools[index]?.blocks ?? 0) >= this.#total;
  }

  /** Nodes hold so many blocks of a pool more; returns whether it has become low. */
  count(index: number, more: number): boolean {
    const pool = this.#pools[index];
    if (pool === undefined) return false;
    this.#blocks += more;
    pool.blocks += more;
    const total = this.#total;
    const times = this.#times;
    const free = total - pool.blocks;
    const before = pool.known?.capacity;
    const percent = before === "low"
      ? CAPACITY_OK_PERCENT
      : CAPACITY_LOW_PERCENT;
    const isLow = free * 100 < total * percent;
    pool.known = transformPool({
      apiVersion: GROUP_VERSION,
      kind: "AddressPool",
      metadata: { name: `pool-${index}` },
      spec: { subnets: [] },
      status: {
        blocks: {
          total: times * total,
          allocated: times * pool.blocks,
          free: times * free,
        },
        conditions: [{
          type: CONDITION_CAPACITY_LOW,
          status: isLow ? "True" : "False",
          reason: "",
          message: "",
          lastTransitionTime: "",
        }],
      },
    }, pool.known);
    return isLow && before !== "low";
  }
}
