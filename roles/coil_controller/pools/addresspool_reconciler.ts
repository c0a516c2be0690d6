import {
  ADDRESS_BLOCKS,
  ADDRESS_POOLS,
  type AddressBlock,
  type AddressPool,
  type BlockCounts,
  isPoolStatusNews,
  type Pool,
  type PoolForecast,
  type PoolOverlapReport,
  poolStatus,
  poolStatusEquals,
  unreadablePoolStatus,
} from "../../../lib/api/mod.ts";
import type { Clock } from "../../../lib/async/mod.ts";
import {
  type EventRecorder,
  type KubeClient,
  type ReconcileResult,
  referenceTo,
  type Store,
} from "../../../lib/kube/mod.ts";
import type { HeapKeeper } from "../../../lib/linux/mod.ts";
import { FINALIZER, NODE_LABEL, POOL_LABEL } from "../../../lib/names/mod.ts";
import { getLogger } from "../../../lib/telemetry/mod.ts";
import { WritePace } from "../base/write_pace.ts";
import type { IpamMetrics } from "../ipam/metrics.ts";
import type { AuditReports } from "./audit_reports.ts";
import type { ClusterRanges } from "./cluster_ranges.ts";
import { Growth } from "./growth.ts";
import { poolEvents } from "./pool_events.ts";
import type { PoolUsage } from "./pool_usage.ts";
import { readPool } from "./read_pool.ts";

const log = getLogger("addresspool-reconciler");

/** The state of pools in memory, from which blocks are allocated. */
export interface PoolBook {
  /** Takes over a pool and the indices of its blocks. */
  sync(pool: Pool, indices: readonly number[]): void;
  /** Whether a block of the pool is being created right now. */
  isCarving(pool: string): boolean;
  /** What others have of the pool, if anything. */
  overlap(pool: string): PoolOverlapReport | undefined;
  /** Forgets a pool. */
  drop(pool: string): void;
}

export interface AddressPoolReconcilerOptions {
  readonly client: KubeClient;
  readonly pools: Store<AddressPool>;
  /** All blocks, with the index "pool". */
  readonly blocks: Store<AddressBlock>;
  readonly book: PoolBook;
  readonly ranges: Pick<ClusterRanges, "overlap">;
  /** Without it, it is not known what pods use. */
  readonly usage: Pick<PoolUsage, "of"> | undefined;
  readonly audits: Pick<AuditReports, "of">;
  readonly metrics: Pick<
    IpamMetrics,
    "poolCounted" | "poolForecast" | "dropPool"
  >;
  readonly events: Pick<EventRecorder, "event">;
  readonly heap: Pick<HeapKeeper, "note">;
  readonly now?: () => Date;
  /** When statuses are written, and how fast pools grow; replaced in tests, as is `random`. */
  readonly clock?: Clock;
  readonly random?: () => number;
}

/** Every node follows all pools: a status whose numbers alone have changed is not written more often. */
const STATUS_INTERVAL_MS = 15_000;
/** Nodes that ask for blocks at once have them before a status is sent to all nodes. */
const STATUS_QUIET_MS = 2_000;

/** Keeps each pool's finalizer, its state in memory and its status. */
export class AddressPoolReconciler {
  readonly #options: AddressPoolReconcilerOptions;
  readonly #growth: Growth;
  readonly #pace: WritePace;

  constructor(options: AddressPoolReconcilerOptions) {
    this.#options = options;
    const { clock, random } = options;
    this.#growth = new Growth(options);
    this.#pace = new WritePace({
      intervalMs: STATUS_INTERVAL_MS,
      quietMs: STATUS_QUIET_MS,
      clock,
      random,
    });
  }

  /** Brings the pool of the name up to date. */
  async reconcile(name: string, signal: AbortSignal): Promise<ReconcileResult> {
    const { pools, blocks, book, metrics } = this.#options;
    const object = pools.get(name);
    if (object === undefined) {
      book.drop(name);
      this.#pace.forget(name);
      this.#growth.drop(name);
      metrics.dropPool(name);
      return;
    }
    const own = blocks.byIndex("pool", name);
    const indices = own.map((block) => block.index);
    const pool = readPool(object);
    if (!(pool instanceof SyntaxError)) book.sync(pool, indices);
    if (await this.#reconcileFinalizer(object, indices.length, signal)) return;
    return await this.#writeStatus(object, pool, own, signal);
  }

  /** Adds or removes the finalizer; true when the object changed, so that its watch event leads back here. */
  async #reconcileFinalizer(
    object: AddressPool,
    cached: number,
    signal: AbortSignal,
  ): Promise<boolean> {
    const { name = "", finalizers = [], deletionTimestamp } = object.metadata;
    const has = finalizers.includes(FINALIZER);
    if (deletionTimestamp === undefined) {
      if (has) return false;
      await this.#setFinalizers(object, [...finalizers, FINALIZER], signal);
      return true;
    }
    if (!has || cached > 0 || await this.#isUsed(name, signal)) return false;
    await this.#setFinalizers(
      object,
      finalizers.filter((f) => f !== FINALIZER),
      signal,
    );
    log.info("Pool no longer has blocks; removed its finalizer", {
      pool: name,
    });
    return true;
  }

  async #isUsed(name: string, signal: AbortSignal): Promise<boolean> {
    const { client, book } = this.#options;
    if (book.isCarving(name)) return true;
    const { items } = await client.list(ADDRESS_BLOCKS, {
      labelSelector: `${POOL_LABEL}=${name}`,
      limit: 1,
      metadataOnly: true,
      signal,
    });
    return items.length > 0;
  }

  /** A change by others in the meantime is a conflict, and the next attempt sees it. */
  async #setFinalizers(
    object: AddressPool,
    finalizers: readonly string[],
    signal: AbortSignal,
  ): Promise<void> {
    const { name = "", uid, resourceVersion } = object.metadata;
    const patch = { metadata: { uid, resourceVersion, finalizers } };
    await this.#options.client.patch(ADDRESS_POOLS, { name, signal }, patch, {
      kind: "merge",
    });
  }

  async #writeStatus(
    object: AddressPool,
    pool: Pool | SyntaxError,
    own: readonly AddressBlock[],
    signal: AbortSignal,
  ): Promise<ReconcileResult> {
    const { client, book, ranges, usage, audits } = this.#options;
    const { metrics, heap, events, now = () => new Date() } = this.#options;
    const { name = "", deletionTimestamp } = object.metadata;
    const previous = object.status;
    const status = pool instanceof SyntaxError
      ? unreadablePoolStatus({
        message: pool.message,
        generation: object.metadata.generation ?? 0,
        previous,
        now: now(),
      })
      : poolStatus(pool, {
        allocated: own.map(({ index }) => index),
        nodes: own.map(({ metadata }) => metadata.labels?.[NODE_LABEL] ?? ""),
        overlap: book.overlap(pool.name),
        cluster: ranges.overlap(pool),
        used: usage?.of(name),
        audit: audits.of(name),
        forecast: (blocks, busy) => this.#forecast(name, blocks, busy),
        previous,
        now: now(),
      });
    metrics.poolCounted(name, status);
    // 5 MB of garbage for 50,000 blocks.
    heap.note(status.blocks?.allocated);
    if (poolStatusEquals(previous, status)) return this.#pace.settled(name);
    const isNews = deletionTimestamp !== undefined ||
      isPoolStatusNews(previous, status);
    const requeueAfterMs = isNews
      ? 0
      : this.#pace.waitMs(name, JSON.stringify(status));
    if (requeueAfterMs > 0) return { requeueAfterMs };
    await client.updateStatus(ADDRESS_POOLS, { ...object, status }, { signal });
    this.#pace.wrote(name);
    for (const event of poolEvents(object, status)) {
      events.event(referenceTo(ADDRESS_POOLS, object), event);
    }
  }

  /** How fast the pool is used up, if that is known. */
  #forecast(
    pool: string,
    blocks: BlockCounts,
    busy: number,
  ): PoolForecast | undefined {
    const forecast = this.#growth.note(pool, blocks, busy);
    this.#options.metrics.poolForecast(pool, forecast);
    return forecast;
  }
}
