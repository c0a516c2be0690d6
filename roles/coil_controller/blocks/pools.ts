import {
  ADDRESS_BLOCKS,
  type AddressBlock,
  addressBlockName,
  type AddressPool,
  blockPrefixes,
  hasSameLayout,
  type Pool,
  type PoolOverlapReport,
  subnetEquals,
  tryPoolOf,
} from "../../../lib/api/mod.ts";
import { SingleFlight } from "../../../lib/async/mod.ts";
import {
  type AllocateBlockOptions,
  BlockRefusedError,
  type BlockStore,
  type Creation,
  OutOfBlocksError,
  overlapReport,
  type PoolCounts,
  PoolDeletingError,
  PoolManager,
} from "../../../lib/ipam/mod.ts";
import {
  KubeApiError,
  type KubeClient,
  type Store,
} from "../../../lib/kube/mod.ts";
import { POOL_LABEL, REQUEST_LABEL } from "../../../lib/names/mod.ts";
import { getLogger } from "../../../lib/telemetry/mod.ts";
import type { PoolBook } from "../pools/addresspool_reconciler.ts";
import { addressesOf, type CachedBlock } from "../ipam/transform.ts";

const log = getLogger("pool-manager");

/** Going through 50,000 blocks takes some 20 ms. */
const RESYNC_MS = 30_000;

export interface PoolsOptions {
  readonly client: KubeClient;
  /** All blocks, with the indexes "pool" and "alias". */
  readonly blocks: Store<CachedBlock>;
  /** Called when something has changed that the status of another pool shows. */
  readonly onConcerned?: (pool: string) => void;
  /** Milliseconds that never go back; replaced in tests. */
  readonly now?: () => number;
}

/** The pool manager over the API server: blocks are listed from the informer and created live. */
export class Pools implements PoolBook, BlockStore {
  readonly #options: PoolsOptions;
  readonly #manager: PoolManager;
  readonly #known = new Map<string, Pool>();
  readonly #syncedMs = new Map<string, number>();
  readonly #lists = new SingleFlight<readonly number[]>();
  /** Pools whose blocks were read live since this process leads. */
  readonly #readLive = new Set<string>();
  readonly #now: () => number;
  #isOpen = false;

  constructor(options: PoolsOptions) {
    this.#options = options;
    this.#now = options.now ?? (() => performance.now());
    this.#manager = new PoolManager({ store: this });
  }

  /** Takes over all pools, and the blocks that the informer has. Those that cannot be read are left for the reconciler. */
  open(objects: readonly AddressPool[]): void {
    for (const object of objects) {
      const pool = tryPoolOf(object);
      if (pool !== undefined) this.sync(pool, this.#cached(pool.name));
    }
    this.#isOpen = true;
    for (const block of this.#options.blocks.list()) this.seen(block);
  }

  /** Takes note of a block that exists. */
  seen(block: CachedBlock): void {
    if (!this.#isOpen) return;
    const { name = "", labels } = block.metadata;
    const pool = this.#known.get(labels?.[POOL_LABEL] ?? "");
    if (pool !== undefined) this.#manager.noted(pool.name, block.index);
    const isUsual = pool !== undefined && isWhereIndexSays(block, pool);
    this.#noteMisplaced(name, isUsual ? undefined : block);
  }

  /**
   * Takes over a pool. The manager learns of blocks as they come and go; all
   * are gone through only where it lost count, and now and then.
   */
  sync(pool: Pool, indices: readonly number[]): void {
    if (this.#learn(pool, indices)) return;
    const { allocatedBlocks } = this.#manager.counts(pool);
    const isCounted = allocatedBlocks === indices.length ||
      this.isCarving(pool.name);
    const syncedMs = this.#syncedMs.get(pool.name) ?? -Infinity;
    const isFresh = this.#now() - syncedMs < RESYNC_MS;
    if (!isCounted || !isFresh) this.#resync(pool, indices);
  }

  isCarving(pool: string): boolean {
    return this.#manager.isCarving(pool);
  }

  /** Takes over what the pool has become, if that matters to blocks; returns whether it does. */
  #learn(pool: Pool, indices?: readonly number[]): boolean {
    const { name } = pool;
    const known = this.#known.get(name);
    this.#known.set(name, pool);
    if (hasSameLayout(pool, known)) return false;
    const before = this.#manager.overlaps.neighbours(name);
    this.#resync(pool, indices ?? this.#cached(name));
    this.#changed(name, before);
    return true;
  }

  /** The subnets of a pool are others now: looks at its blocks again and notifies its neighbours, old and new. */
  #changed(name: string, before: readonly string[]): void {
    for (const block of this.#options.blocks.byIndex("pool", name)) {
      this.seen(block);
    }
    const neighbours = [...before, ...this.#manager.overlaps.neighbours(name)];
    for (const pool of new Set(neighbours)) this.#options.onConcerned?.(pool);
  }

  #noteMisplaced(name: string, block: CachedBlock | undefined): void {
    const prefixes = block === undefined ? undefined : addressesOf(block);
    for (const pool of this.#manager.overlaps.setMisplaced(name, prefixes)) {
      this.#options.onConcerned?.(pool);
    }
  }

  /** What others have of the pool, if anything. */
  overlap(pool: string): PoolOverlapReport | undefined {
    const overlap = this.#manager.overlaps.of(pool);
    return overlap === undefined ? undefined : overlapReport(pool, overlap);
  }

  /** Names of the other pools with addresses of the pool. */
  neighbours(pool: string): string[] {
    return this.#manager.overlaps.neighbours(pool);
  }

  /** Numbers of the blocks of all pools. */
  counts(): PoolCounts[] {
    return [...this.#known.values()].map((pool) => this.#manager.counts(pool));
  }

  /** Takes note that a block is gone. */
  freed({ metadata, index }: AddressBlock): void {
    const name = metadata.labels?.[POOL_LABEL] ?? "";
    if (!this.#hasOther(name, index)) this.#manager.freed(name, index);
    this.#noteMisplaced(metadata.name ?? "", undefined);
  }

  /** Whether there is a block of the index still: v1 could have several, one in another or on two nodes. */
  #hasOther(pool: string, index: number): boolean {
    const { blocks } = this.#options;
    const name = addressBlockName(pool, index);
    return blocks.get(name) !== undefined ||
      blocks.byIndex("alias", name).length > 0;
  }

  drop(pool: string): void {
    this.#known.delete(pool);
    // mutate: only frees memory; a pool that is not known is read anyway.
    this.#syncedMs.delete(pool);
    this.#readLive.delete(pool);
    const before = this.#manager.overlaps.neighbours(pool);
    this.#manager.drop(pool);
    this.#changed(pool, before);
  }

  /**
   * Returns the name of the block of the pool for the request, a new one
   * unless an earlier attempt made it.
   *
   * @throws {OutOfBlocksError} when the pool has no block left
   * @throws {BlockRefusedError} when the API server will not have such a block
   */
  async allocate(pool: Pool, options: AllocateBlockOptions): Promise<string> {
    const { name } = pool;
    this.#learn(pool);
    await this.#readSharers(name, options.signal);
    try {
      return await this.#manager.allocate(this.#current(name), options);
    } catch (error) {
      if (!(error instanceof OutOfBlocksError)) throw error;
    }
    // A block may have been returned since the pool was last taken over.
    const current = this.#current(name);
    this.#resync(current, this.#cached(name));
    return await this.#manager.allocate(current, options);
  }

  /** The pool as it is after a wait, in which it may have been paused, deleted, or given other subnets. */
  #current(name: string): Pool {
    const pool = this.#known.get(name);
    if (pool === undefined) throw new PoolDeletingError(name);
    return pool;
  }

  /**
   * Reads the blocks of the pools that share addresses with the pool, once: the
   * informer may lack what the former leader created last, and only a block of
   * the same pool is refused for its name.
   */
  async #readSharers(pool: string, signal: AbortSignal): Promise<void> {
    for (;;) {
      // Asked again after each list: one more pool may share addresses by then.
      const name = this.#manager.overlaps.sharers(pool)
        .find((sharer) => !this.#readLive.has(sharer));
      if (name === undefined) return;
      const indices = await this.#live(name, signal);
      // What is noted stays in use when an informer that is still behind is gone through.
      for (const index of indices) this.#manager.noted(name, index);
      // A pool that is gone by now may be made again, with blocks that nothing has noted.
      if (this.#known.has(name)) this.#readLive.add(name);
    }
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
      if (!(error instanceof KubeApiError)) throw error;
      if (error.isInvalid || error.status === 400) {
        throw new BlockRefusedError(error.message, { cause: error });
      }
      if (!error.isAlreadyExists) throw error;
    }
    const live = await client.tryGet(ADDRESS_BLOCKS, { name, signal });
    const requestUid = live?.metadata.labels?.[REQUEST_LABEL];
    if (requestUid === undefined || requestUid !== labels[REQUEST_LABEL]) {
      log.info("Block exists already; reading the pool again", { block: name });
      await this.#relist(labels[POOL_LABEL] ?? "", signal);
    }
    return { created: false, requestUid };
  }

  /** Takes over the pool's blocks as they are: the informer is behind, and may miss many of them. */
  async #relist(name: string, signal: AbortSignal): Promise<void> {
    const indices = await this.#live(name, signal);
    const pool = this.#known.get(name);
    if (pool !== undefined) this.#manager.sync(pool, indices);
  }

  /** Reads the indices of the pool's blocks from the API server. */
  async #live(name: string, signal: AbortSignal): Promise<readonly number[]> {
    return await this.#lists.do(name, async () => {
      const indices: number[] = [];
      await this.#options.client.listItems(
        ADDRESS_BLOCKS,
        { labelSelector: `${POOL_LABEL}=${name}`, signal },
        (block) => indices.push(block.index),
      );
      return indices;
    });
  }

  #resync(pool: Pool, indices: readonly number[]): void {
    this.#manager.sync(pool, indices);
    this.#syncedMs.set(pool.name, this.#now());
  }

  #cached(pool: string): number[] {
    return this.#options.blocks.byIndex("pool", pool).map(({ index }) => index);
  }
}

function isWhereIndexSays(block: CachedBlock, pool: Pool): boolean {
  if (hasSameLayout(pool, block.layout)) return true;
  const prefixes = blockPrefixes(pool, block.index);
  return prefixes !== undefined && subnetEquals(prefixes, addressesOf(block));
}
