import { addressBlockName, type Pool } from "../../../lib/api/mod.ts";
import { type KubeClient, NODES, type Store } from "../../../lib/kube/mod.ts";
import { NODE_LABEL, POOL_LABEL } from "../../../lib/names/mod.ts";
import { parseQuantity } from "../base/quantity.ts";
import type { CachedBlock } from "../ipam/transform.ts";
import type { BlockReports } from "./block_reports.ts";

/** The kubelet's default. A Node that allows fewer pods is treated like one that allows this many. */
const USUAL_PODS = 110;
/** Blocks beyond the computed need: one on its way in each direction, and some that an admin is draining. */
const SLACK_BLOCKS = 4;
const PODS_TTL_MS = 5 * 60_000;
/** By then every cache has seen a new block. */
const MEMORY_MS = 60_000;

export interface NodeLimitOptions {
  readonly client: Pick<KubeClient, "tryGet">;
  /** All blocks, with the index "node". */
  readonly blocks: Pick<Store<CachedBlock>, "get" | "byIndex">;
  /** Addresses of a pool per pod that the Node allows; 0 switches the limit off. */
  readonly factor: number;
  /** The largest number of pods that a Node is believed. Anyone who has the kubelet's credentials writes what it says. */
  readonly maxPods: number;
  readonly reports: Pick<BlockReports, "disbelieved">;
  /** Monotonic milliseconds. */
  readonly now?: () => number;
}

/** A block that a node may have; disposing of it before the block was created gives it back. */
export interface Seat extends Disposable {
  /** The block is about to be created. The informer may show it before the creation is answered. */
  allocating(block: string): void;
  /** The block was created. */
  allocated(block: string): void;
}

/** The node has all blocks of the pool that it may have. */
export class NodeLimitError extends Error {
  override readonly name = "NodeLimitError";
}

interface Taken {
  readonly pool: string;
  readonly atMs: number;
  block?: string;
  isAllocated: boolean;
}

/**
 * Limits the blocks of a pool that one node holds, so that a stolen token of a
 * node cannot use up the pool for all others.
 *
 * coild asks for a block only when those it has are full. So a node never needs
 * more addresses of a pool than it has pods, also when they use other pools;
 * twice as many leave room for pods that are being deleted. There is no limit
 * over all pools: a pod in each of a hundred pools needs a hundred blocks.
 *
 * Blocks are counted in the informer's store, plus those allocated since that it
 * has not shown yet; a new leader lists them all before it answers. The Node is
 * read only where the usual number of pods would not do.
 */
export class NodeLimit {
  readonly #options: NodeLimitOptions;
  readonly #now: () => number;
  /** By node: all of a large cluster may ask at once. */
  readonly #taken = new Map<string, Set<Taken>>();
  readonly #pods = new Map<string, { count: number; atMs: number }>();
  readonly #disbelieved = new Set<string>();

  constructor(options: NodeLimitOptions) {
    this.#options = options;
    this.#now = options.now ?? (() => performance.now());
  }

  /**
   * Reserves one more block of the pool for the node.
   *
   * @throws {NodeLimitError} when the node has as many as it may have
   */
  async take(
    pool: Pool,
    { node, signal }: { readonly node: string; readonly signal: AbortSignal },
  ): Promise<Seat> {
    const { factor, blocks } = this.#options;
    let pods = USUAL_PODS;
    if (factor > 0 && this.#held(pool, node) >= limitOf(pool, pods, factor)) {
      pods = await this.#podsOf(node, signal);
      const held = this.#held(pool, node);
      const limit = limitOf(pool, pods, factor);
      if (held >= limit) {
        throw new NodeLimitError(
          `Node "${node}" holds ${held} blocks of AddressPool "${pool.name}", and ${limit} are enough for ${pods} pods ` +
            `(--node-address-factor=${factor}): see "coil ipam show blocks --node=${node}" for their use`,
        );
      }
    }
    const atMs = this.#now();
    const taken: Taken = { pool: pool.name, atMs, isAllocated: false };
    this.#taken.set(node, (this.#taken.get(node) ?? new Set()).add(taken));
    return {
      allocating: (block) => {
        taken.block = block;
      },
      allocated: (block) => {
        taken.block = block;
        taken.isAllocated = true;
        // Its event came before: no other one settles it while the block is there.
        if (blocks.get(block) !== undefined) this.#forget(node, taken);
      },
      [Symbol.dispose]: () => {
        if (!taken.isAllocated) this.#forget(node, taken);
      },
    };
  }

  /** The informer has shown a block of the node, or its deletion. */
  settled(block: string, { node }: { readonly node: string }): void {
    for (const taken of this.#taken.get(node) ?? []) {
      if (taken.isAllocated && taken.block === block) this.#forget(node, taken);
    }
  }

  #forget(node: string, taken: Taken): void {
    const ofNode = this.#taken.get(node);
    if (ofNode?.delete(taken) && ofNode.size === 0) this.#taken.delete(node);
  }

  /** Number of blocks of the pool that the node has or is being given. */
  #held(pool: Pool, node: string): number {
    const { blocks } = this.#options;
    let held = 0;
    for (const { metadata, index } of blocks.byIndex("node", node)) {
      if (metadata.labels?.[POOL_LABEL] !== pool.name) continue;
      // Others were taken over from v1; no node can make such a name.
      if (metadata.name === addressBlockName(pool.name, index)) held++;
    }
    for (const taken of this.#taken.get(node) ?? []) {
      if (taken.pool !== pool.name) continue;
      const shown = blocks.get(taken.block ?? "");
      const isOver = taken.isAllocated &&
        (shown !== undefined || this.#now() - taken.atMs > MEMORY_MS);
      if (isOver) this.#forget(node, taken);
      // One that is shown was counted above, whether or not its creation has been answered.
      else if (shown?.metadata.labels?.[NODE_LABEL] !== node) held++;
    }
    return held;
  }

  async #podsOf(node: string, signal: AbortSignal): Promise<number> {
    const known = this.#pods.get(node);
    if (known !== undefined && this.#now() - known.atMs < PODS_TTL_MS) {
      return known.count;
    }
    const live = await this.#options.client.tryGet(NODES, {
      name: node,
      signal,
    });
    const { allocatable, capacity } = live?.status ?? {};
    const stated = allocatable?.["pods"] ?? capacity?.["pods"] ?? "";
    const count = this.#believed(node, stated);
    this.#pods.delete(node);
    this.#pods.set(node, { count, atMs: this.#now() });
    this.#forgetOldPods();
    return count;
  }

  // mutate: only frees memory; an old number is not used.
  #forgetOldPods(): void {
    for (const [name, { atMs }] of this.#pods) {
      if (this.#now() - atMs < PODS_TTL_MS) break;
      this.#pods.delete(name);
    }
  }

  /** The number of pods that a Node is believed. `stated` is a quantity: the API server writes 1000 as `1k`. */
  #believed(node: string, stated: string): number {
    const { maxPods, reports } = this.#options;
    const count = parseQuantity(stated) ?? 0;
    if (count <= maxPods) {
      this.#disbelieved.delete(node);
      return Math.max(USUAL_PODS, Math.floor(count));
    }
    if (!this.#disbelieved.has(node)) {
      this.#disbelieved.add(node);
      reports.disbelieved({
        node,
        message:
          `Node "${node}" allows ${stated} pods, but coil-controller assumes at most ${maxPods}: ` +
          "if the number is right, raise --max-pods-per-node of coil-controller; if not, the Node's status was changed, possibly with stolen kubelet credentials",
      });
    }
    return maxPods;
  }
}

/** Blocks of the pool that are enough for a node with so many pods. */
function limitOf(pool: Pool, pods: number, factor: number): number {
  return SLACK_BLOCKS + Math.ceil(pods * factor / 2 ** pool.blockSizeBits);
}
