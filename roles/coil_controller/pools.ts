import {
  ADDRESS_BLOCKS,
  type AddressBlock,
  type AddressPool,
  type Pool,
  poolOf,
} from "../../lib/api/mod.ts";
import { SingleFlight } from "../../lib/async/mod.ts";
import {
  type BlockStore,
  type Creation,
  OutOfBlocksError,
  type PoolCounts,
  PoolDeletingError,
  PoolManager,
} from "../../lib/ipam/mod.ts";
import {
  KubeApiError,
  type KubeClient,
  type Store,
} from "../../lib/kube/mod.ts";
import { POOL_LABEL, REQUEST_LABEL } from "../../lib/names/mod.ts";
import { getLogger } from "../../lib/telemetry/mod.ts";
import type { PoolBook } from "./addresspool_reconciler.ts";
import type { BlockCarver, CarveOptions } from "./blockrequest_reconciler.ts";
import type { IpamMetrics } from "./metrics.ts";

const log = getLogger("pool-manager");

/** Going through 50,000 blocks takes some 20 ms. */
const RESYNC_MS = 30_000;

/** What {@linkcode Pools} works with. */
export interface PoolsOptions {
  readonly client: KubeClient;
  /** All blocks, with the index "pool". */
  readonly blocks: Store<AddressBlock>;
  readonly metrics: IpamMetrics;
}

/** The pool manager over the API server: blocks are listed from the informer and created live. */
export class Pools implements PoolBook, BlockCarver, BlockStore {
  readonly #options: PoolsOptions;
  readonly #manager: PoolManager;
  readonly #known = new Map<string, Pool>();
  readonly #syncedMs = new Map<string, number>();
  readonly #relists = new SingleFlight<void>();

  constructor(options: PoolsOptions) {
    this.#options = options;
    const { metrics } = options;
    this.#manager = new PoolManager({
      store: this,
      onCounts: (counts) => publish(metrics, counts),
    });
  }

  /** Takes over a pool with the blocks that the informer has. A pool that cannot be read is left for its reconciler. */
  adopt(object: AddressPool): void {
    try {
      const pool = poolOf(object);
      this.sync(pool, this.#cached(pool.name));
    } catch (error) {
      if (!(error instanceof SyntaxError)) throw error;
    }
  }

  /**
   * Takes over a pool. The manager learns of blocks as they come and go; all
   * are gone through only where it lost count, and now and then.
   */
  sync(pool: Pool, indices: readonly number[]): void {
    const known = this.#known.get(pool.name);
    this.#known.set(pool.name, pool);
    const { allocatedBlocks } = this.#manager.counts(pool);
    const isCounted = known !== undefined && known.uid === pool.uid &&
      (allocatedBlocks === indices.length || this.isCarving(pool.name));
    const isFresh =
      performance.now() - (this.#syncedMs.get(pool.name) ?? -Infinity) <
        RESYNC_MS;
    if (!isCounted || !isFresh) this.#resync(pool, indices);
    else this.#publish(pool);
  }

  isCarving(pool: string): boolean {
    return this.#manager.isCarving(pool);
  }

  /** Takes note that a block is gone. */
  freed(name: string, index: number): void {
    this.#manager.freed(name, index);
    const pool = this.#known.get(name);
    if (pool !== undefined) this.#publish(pool);
  }

  drop(pool: string): void {
    this.#known.delete(pool);
    this.#syncedMs.delete(pool);
    this.#manager.drop(pool);
    this.#options.metrics.dropPool(pool);
  }

  async allocate(pool: Pool, options: CarveOptions): Promise<string> {
    this.#known.set(pool.name, pool);
    try {
      return await this.#manager.allocate(pool, options);
    } catch (error) {
      if (
        !(error instanceof OutOfBlocksError) ||
        error instanceof PoolDeletingError
      ) throw error;
    }
    // A block may have been returned since the pool was last taken over.
    this.#resync(pool, this.#cached(pool.name));
    return await this.#manager.allocate(pool, options);
  }

  list(pool: string): Promise<Iterable<number>> {
    return Promise.resolve(this.#cached(pool));
  }

  async create(
    block: AddressBlock,
    { signal }: { readonly signal: AbortSignal },
  ): Promise<Creation> {
    const { client } = this.#options;
    const { name = "", labels = {} } = block.metadata;
    try {
      await client.create(ADDRESS_BLOCKS, block, { signal });
      return { created: true };
    } catch (error) {
      if (!(error instanceof KubeApiError && error.isAlreadyExists)) {
        throw error;
      }
    }
    const live = await client.tryGet(ADDRESS_BLOCKS, { name, signal });
    const requestUid = live?.metadata.labels?.[REQUEST_LABEL];
    if (requestUid === undefined || requestUid !== labels[REQUEST_LABEL]) {
      log.info("Block exists already, reading the pool anew", { block: name });
      await this.#relist(labels[POOL_LABEL] ?? "", signal);
    }
    return { created: false, requestUid };
  }

  /** Reads the pool's blocks live: the informer is behind, and may miss many of them. */
  async #relist(name: string, signal: AbortSignal): Promise<void> {
    await this.#relists.do(name, async () => {
      const indices: number[] = [];
      await this.#options.client.listItems(
        ADDRESS_BLOCKS,
        { labelSelector: `${POOL_LABEL}=${name}`, signal },
        (block) => indices.push(block.index),
      );
      const pool = this.#known.get(name);
      if (pool !== undefined) this.#manager.sync(pool, indices);
    });
  }

  #resync(pool: Pool, indices: readonly number[]): void {
    this.#manager.sync(pool, indices);
    this.#syncedMs.set(pool.name, performance.now());
  }

  #publish(pool: Pool): void {
    publish(this.#options.metrics, this.#manager.counts(pool));
  }

  #cached(pool: string): number[] {
    return this.#options.blocks.byIndex("pool", pool).map(({ index }) => index);
  }
}

function publish(metrics: IpamMetrics, counts: PoolCounts): void {
  const { pool, maxBlocks, allocatedBlocks } = counts;
  metrics.maxBlocks.set({ pool }, maxBlocks);
  metrics.allocatedBlocks.set({ pool }, allocatedBlocks);
}
