import {
  type AddressBlock,
  newAddressBlock,
  type Pool,
  poolCapacity,
  reservedBlocks,
  spanAt,
  usableBlocks,
} from "../../api/mod.ts";
import {
  BlockRefusedError,
  OutOfBlocksError,
  PoolDeletingError,
  PoolPausedError,
} from "../base/errors.ts";
import { Overlaps } from "./overlaps.ts";
import { POOL_LABEL } from "../../names/mod.ts";
import { PoolIndex } from "./index.ts";
import type { SignalOptions } from "../base/ports.ts";

/** The outcome of the creation of a block. */
export type Creation =
  | { readonly created: true }
  /** There is an object of that name already. */
  | {
    readonly created: false;
    /** UID of the request that the existing block was made for, as far as known. */
    readonly requestUid?: string | undefined;
  };

/** The AddressBlocks of the API server. The role implements it. */
export interface BlockStore {
  /** Lists the indices of all blocks of a pool, reserved ones included. A cache may answer. */
  list(pool: string, options: SignalOptions): Promise<Iterable<number>>;
  /**
   * Creates a block. Throws whenever it is not certain what happened.
   *
   * @throws {BlockRefusedError} when there is no block, and never will be one like this
   */
  create(block: AddressBlock, options: SignalOptions): Promise<Creation>;
}

/** Numbers of blocks of a pool. */
export interface PoolCounts {
  readonly pool: string;
  /** The most blocks it can ever have. */
  readonly maxBlocks: number;
  /** The blocks it has, as far as known. */
  readonly allocatedBlocks: number;
}

export interface PoolManagerOptions {
  readonly store: BlockStore;
  /** Monotonic milliseconds. */
  readonly now?: () => number;
}

/** Who asks for a block. */
export interface AllocateBlockOptions extends SignalOptions {
  readonly node: string;
  /** UID of the BlockRequest: two calls with the same one never make two blocks. */
  readonly requestUid: string;
  /** Addresses of the node, for the block's annotation. */
  readonly nodeAddresses?: string | undefined;
  /** Called with the name of each block before it is created. */
  readonly onTry?: (block: string) => void;
}

/**
 * What this process knows better than its cache is kept this long: by then every cache has seen it, and if not, the
 * API server refuses a name that exists, and the next index is tried.
 */
const MEMORY_MS = 60_000;

/** One pool's indices: those that lists have shown, and those that this process has taken in the meantime. */
interface PoolIndices {
  index: PoolIndex;
  /** Indices in use that no list has shown yet, and when that was found. */
  readonly unseen: Map<number, number>;
  /** Indices that a request has taken, by its UID, until the outcome is certain; and since when. */
  readonly pending: Map<string, { readonly index: number; at: number }>;
  /** Number of creations under way. */
  flying: number;
}

/**
 * Allocates blocks from pools: always the one with the lowest free index.
 *
 * An index is taken in memory before the API server is asked, so requests of any concurrency never try the same one,
 * and none waits for another. The API server has the last word: a name that exists marks its index and the
 * next is tried, so a cache that is behind costs a round trip and never blocks (upstream retried the same index until
 * its next list).
 *
 * A block that has an address of another block is never allocated: not
 * where two pools overlap, and not where a block lies elsewhere than its pool
 * and index say. Such an index is passed over until the other block is gone.
 */
export class PoolManager {
  /** What pools have in common with each other, and with blocks that are misplaced. The pools in it are kept here. */
  readonly overlaps: Overlaps = new Overlaps((pool) =>
    this.#pools.get(pool)?.index
  );
  readonly #options: PoolManagerOptions;
  readonly #now: () => number;
  readonly #pools = new Map<string, PoolIndices>();

  constructor(options: PoolManagerOptions) {
    this.#options = options;
    this.#now = options.now ?? (() => performance.now());
  }

  /**
   * Creates the next block of the pool and returns its name; or that of the block that the same request got before.
   *
   * @throws {OutOfBlocksError} when the pool has none left, is paused or is being deleted
   * @throws {BlockRefusedError} when the API server will not have such a block
   */
  async allocate(pool: Pool, options: AllocateBlockOptions): Promise<string> {
    if (pool.deleting) throw new PoolDeletingError(pool.name);
    if (pool.paused) throw new PoolPausedError(pool.name);
    const state = this.#pools.get(pool.name) ??
      await this.#open(pool, options.signal);
    this.overlaps.set(pool);
    state.flying++;
    try {
      for (;;) {
        options.signal.throwIfAborted();
        const name = await this.#tryIndex(pool, state, options);
        if (name !== undefined) return name;
      }
    } finally {
      state.flying--;
    }
  }

  async #open(pool: Pool, signal: AbortSignal): Promise<PoolIndices> {
    const indices = await this.#options.store.list(pool.name, { signal });
    return this.#pools.get(pool.name) ?? this.#merge(pool, indices);
  }

  /** Tries one index. Undefined: it belongs to another request. */
  async #tryIndex(
    pool: Pool,
    state: PoolIndices,
    { node, nodeAddresses, requestUid, signal, onTry }: AllocateBlockOptions,
  ): Promise<string | undefined> {
    const at = this.#now();
    // After a failure it is unknown whether the block exists: the same request asks for the same one again.
    const index = state.pending.get(requestUid)?.index ??
      this.#lowestFree(pool, state);
    const block = index === undefined
      ? undefined
      : newAddressBlock(pool, { index, node, nodeAddresses, requestUid });
    if (index === undefined || block === undefined) {
      state.pending.delete(requestUid);
      throw new OutOfBlocksError(pool.name);
    }
    state.index.add(index);
    state.pending.set(requestUid, { index, at });
    const name = block.metadata.name ?? "";
    onTry?.(name);
    const creation = await this.#create(block, { requestUid, signal });
    state.pending.delete(requestUid);
    state.unseen.set(index, this.#now());
    const isOurs = creation.created || creation.requestUid === requestUid;
    return isOurs ? name : undefined;
  }

  /** The lowest unused index whose block overlaps no other and is not reserved as a whole. */
  #lowestFree(pool: Pool, state: PoolIndices): number | undefined {
    const limit = poolCapacity(pool);
    const { whole } = reservedBlocks(pool);
    let index = state.index.lowestFree(limit);
    while (index !== undefined) {
      const reserved = spanAt(whole, index);
      const next = reserved === undefined
        ? this.overlaps.blocked(pool.name, index)
        : reserved.last + 1;
      if (next === undefined) return index;
      index = state.index.lowestFree(limit, next);
    }
    return undefined;
  }

  async #create(
    block: AddressBlock,
    { requestUid, signal }: Omit<AllocateBlockOptions, "node" | "onTry">,
  ): Promise<Creation> {
    try {
      return await this.#options.store.create(block, { signal });
    } catch (error) {
      const pool = block.metadata.labels?.[POOL_LABEL] ?? "";
      const state = this.#pools.get(pool);
      if (error instanceof BlockRefusedError && state !== undefined) {
        state.pending.delete(requestUid);
        this.freed(pool, block.index);
      }
      throw error;
    }
  }

  /** Takes over the indices of the blocks that exist. What this process did lately is kept, should the list not show it. */
  sync(pool: Pool, indices: Iterable<number>): void {
    this.#merge(pool, indices);
  }

  #merge(pool: Pool, indices: Iterable<number>): PoolIndices {
    const now = this.#now();
    const state: PoolIndices = this.#pools.get(pool.name) ??
      {
        index: new PoolIndex(),
        unseen: new Map(),
        pending: new Map(),
        flying: 0,
      };
    const index = new PoolIndex(indices);
    for (const [unseen, at] of state.unseen) {
      const isOver = index.has(unseen) || now - at > MEMORY_MS;
      if (isOver) state.unseen.delete(unseen);
      else index.add(unseen);
    }
    for (const [uid, taken] of state.pending) {
      // A creation that is under way keeps its index however long it takes.
      if (state.flying === 0 && now - taken.at > MEMORY_MS) {
        state.pending.delete(uid);
      } else index.add(taken.index);
    }
    state.index = index;
    this.#pools.set(pool.name, state);
    this.overlaps.set(pool);
    return state;
  }

  /** Takes note of a block that another program made, before the next list. */
  noted(pool: string, index: number): void {
    const state = this.#pools.get(pool);
    if (state?.index.has(index) !== false) return;
    state.index.add(index);
    state.unseen.set(index, this.#now());
  }

  /**
   * Takes note that a block is gone, so that its index is free before the next list. Should a block of that name have
   * been made again in the meantime, the API server refuses a third.
   */
  freed(pool: string, index: number): void {
    const state = this.#pools.get(pool);
    if (state === undefined) return;
    for (const taken of state.pending.values()) {
      if (taken.index === index) return;
    }
    state.unseen.delete(index);
    state.index.delete(index);
  }

  /** Whether a block of the pool is being created: then a list without blocks proves nothing. */
  isCarving(pool: string): boolean {
    return (this.#pools.get(pool)?.flying ?? 0) > 0;
  }

  /** Forgets a pool. */
  drop(pool: string): void {
    this.#pools.delete(pool);
    this.overlaps.drop(pool);
  }

  /** Numbers of a pool's blocks: the metrics of upstream. */
  counts(pool: Pool): PoolCounts {
    return {
      pool: pool.name,
      maxBlocks: usableBlocks(pool),
      allocatedBlocks: this.#pools.get(pool.name)?.index.size ?? 0,
    };
  }
}
