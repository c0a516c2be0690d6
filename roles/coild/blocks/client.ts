import type { Loops } from "../../../lib/async/mod.ts";
import {
  ADDRESS_BLOCKS,
  ADDRESS_POOLS,
  type AddressBlock,
  EVERYTHING,
  parseReserved,
  tryBlockOf,
} from "../../../lib/api/mod.ts";
import type { AddressRange } from "../../../lib/inet/mod.ts";
import {
  type BlockInfo,
  type BlockSource,
  PoolNotFoundError,
  type PoolState,
} from "../../../lib/ipam/mod.ts";
import {
  Informer,
  KubeApiError,
  type KubeClient,
  unlessGone,
} from "../../../lib/kube/mod.ts";
import { FINALIZER, NODE_LABEL, POOL_LABEL } from "../../../lib/names/mod.ts";
import { getLogger } from "../../../lib/telemetry/mod.ts";
import { BlockLooks } from "./looks.ts";
import type { BlockRequests } from "./requests.ts";
import { type KnownPool, transformPool } from "../cluster/transform.ts";

const log = getLogger("node-ipam");

export interface BlockClientOptions {
  readonly client: KubeClient;
  readonly nodeName: string;
  readonly requests: Pick<BlockRequests, "ask" | "synced">;
  /** About how often each block is looked at for what others did to it. */
  readonly lookMs: number;
}

/**
 * The API server's side of the node's address management: which blocks the
 * node has, how to get one more and how to give one back.
 */
export class BlockClient implements BlockSource {
  readonly #client: KubeClient;
  readonly #requests: BlockClientOptions["requests"];
  readonly #nodeName: string;
  readonly #selector: string;
  readonly #looks: BlockLooks;
  readonly #pools: Informer<KnownPool>;

  constructor({ client, nodeName, requests, lookMs }: BlockClientOptions) {
    this.#client = client;
    this.#requests = requests;
    this.#nodeName = nodeName;
    this.#selector = `${NODE_LABEL}=${nodeName}`;
    this.#looks = new BlockLooks({ client, nodeName, intervalMs: lookMs });
    this.#pools = new Informer<KnownPool>(client, ADDRESS_POOLS, {
      transform: (pool) =>
        transformPool(pool, this.#pools.store.get(pool.metadata.name ?? "")),
    });
  }

  /** The loops to run; each ends only by its signal. */
  get loops(): Loops {
    return {
      "block looks": (signal) => this.#looks.run(signal),
      "pool informer": (signal) => this.#pools.run(signal),
    };
  }

  /** Resolves after the first list of pools. */
  get synced(): Promise<void> {
    return this.#pools.synced;
  }

  /** Calls back with all blocks of this node when one has changed or is gone. */
  onBlocksChanged(listener: (blocks: BlockInfo[]) => void): Disposable {
    return this.#looks.subscribe((blocks) => listener(parse(blocks)));
  }

  /** Looks soon for a block that was allocated to this node, unless it is taken in before. */
  expect(name: string): void {
    this.#looks.expect(name);
  }

  /** Calls back when a pool changes. */
  onPoolsChanged(listener: () => void): Disposable {
    return this.#pools.subscribe(listener);
  }

  /** Lists this node's blocks live, and not before the requests are known. */
  async list({ signal }: { signal: AbortSignal }): Promise<BlockInfo[]> {
    await this.#requests.synced({ signal });
    const listed = this.#looks.beginList();
    // Without a limit, with which Kubernetes 1.33.0 to 1.33.2 asks etcd for all blocks.
    const { items } = await this.#client.list(ADDRESS_BLOCKS, {
      labelSelector: this.#selector,
      signal,
    });
    listed(items);
    return parse(items);
  }

  /** Gets one more block, however much is wanted; see {@linkcode BlockRequests.ask}. */
  async request(
    pool: string,
    { signal }: { signal: AbortSignal },
  ): Promise<BlockInfo[]> {
    await this.#assertExists(pool, signal);
    for (;;) {
      const name = await this.#requests.ask(pool, { signal });
      // In case no allocation waits for it any longer when it is read.
      this.#looks.expect(name);
      const object = await this.#client.tryGet(ADDRESS_BLOCKS, {
        name,
        signal,
      });
      const isMine = this.#isMine(object, pool);
      if (isMine) this.#looks.adopted(object);
      const blocks = isMine ? parse([object]) : [];
      if (blocks.length > 0) return blocks;
      log.warn("The allocated block is already deleted", { pool, block: name });
    }
  }

  /**
   * An answer that comes late may name a block that was returned since and
   * allocated again for another node: adopting it would double its addresses.
   */
  #isMine(
    object: AddressBlock | undefined,
    pool: string,
  ): object is AddressBlock {
    const { labels, deletionTimestamp } = object?.metadata ?? {};
    return labels?.[NODE_LABEL] === this.#nodeName &&
      labels[POOL_LABEL] === pool && deletionTimestamp === undefined;
  }

  /** Gives blocks back, one after the other. */
  async release(
    blocks: readonly BlockInfo[],
    options: { signal: AbortSignal },
  ): Promise<void> {
    for (const block of blocks) await this.#release(block, options);
  }

  /**
   * Gives a block back. Deletion comes first and the finalizer goes last, so
   * at no moment could a deletion by another program remove a block under a
   * pod.
   */
  async #release(
    block: BlockInfo,
    { signal }: { signal: AbortSignal },
  ): Promise<void> {
    const { name, uid } = block;
    const target = { name, preconditions: { uid }, signal };
    // Another block of that name is not ours to release.
    await unlessGone(async () => {
      await this.#client.delete(ADDRESS_BLOCKS, target);
      await this.#dropFinalizer(block, signal);
    });
    this.#looks.released(name);
  }

  /** What the informer knows of a pool. */
  poolState(pool: string): PoolState {
    const found = this.#pools.store.get(pool);
    if (found === undefined) {
      return this.#pools.hasSynced ? "absent" : "unknown";
    }
    if (found.metadata.deletionTimestamp !== undefined) return "deleting";
    if (found.spec.paused === true) return "paused";
    return found.capacity ?? "ready";
  }

  /** The addresses of a pool that are never given: all of them, should what is reserved not be readable. */
  reserved(pool: string): readonly AddressRange[] {
    const found = this.#pools.store.get(pool);
    try {
      return parseReserved(found?.spec.reserved);
    } catch (err) {
      log.error("Cannot read an AddressPool; assigning no addresses from it", {
        pool,
        err,
      });
      return EVERYTHING;
    }
  }

  /** The names of the pools there are, for error messages. */
  poolNames(): string[] {
    return this.#pools.store.list().map((pool) => pool.metadata.name ?? "")
      .sort();
  }

  /** Without it, an ADD would wait ten seconds for a pool whose name is a typo. */
  async #assertExists(pool: string, signal: AbortSignal): Promise<void> {
    if (this.poolState(pool) !== "absent") return;
    const live = await this.#client.tryGet(ADDRESS_POOLS, {
      name: pool,
      signal,
    });
    if (live === undefined) throw new PoolNotFoundError(pool);
  }

  async #dropFinalizer(block: BlockInfo, signal: AbortSignal): Promise<void> {
    const { name } = block;
    for (;;) {
      const found = await this.#client.tryGet(ADDRESS_BLOCKS, { name, signal });
      if (found === undefined || found.metadata.uid !== block.uid) return;
      const finalizers = found.metadata.finalizers ?? [];
      if (!finalizers.includes(FINALIZER)) return;
      const { resourceVersion } = found.metadata;
      try {
        await this.#client.patch(ADDRESS_BLOCKS, { name, signal }, {
          metadata: {
            resourceVersion,
            finalizers: finalizers.filter((entry) => entry !== FINALIZER),
          },
        }, { kind: "merge" });
        return;
      } catch (error) {
        if (!(error instanceof KubeApiError && error.isConflict)) throw error;
      }
    }
  }
}

/** A block that cannot be read is left alone: its addresses may be in use. */
function parse(objects: readonly AddressBlock[]): BlockInfo[] {
  return objects.flatMap((object) => {
    const block = tryBlockOf(object);
    if (block !== undefined) return [block];
    log.error("Cannot read an AddressBlock; ignoring it", {
      block: object.metadata.name,
    });
    return [];
  });
}
