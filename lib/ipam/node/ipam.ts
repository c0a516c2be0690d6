import type { Address, DualStack } from "../../inet/mod.ts";
import {
  Backoff,
  type Clock,
  jittered,
  retry,
  systemClock,
  TaskGroup,
  untilAborted,
} from "../../async/mod.ts";
import { getLogger } from "../../telemetry/mod.ts";
import { AddressTable } from "../table/address_table.ts";
import { Allocations } from "./allocations.ts";
import { BlockKeeper } from "../blocks/block_keeper.ts";
import type { BlockChanges } from "../blocks/block_view.ts";
import {
  type BlockRecord,
  blockRecordOf,
  type PoolStats,
  statsOf,
} from "../table/stats.ts";
import type {
  BlockInfo,
  BlockSource,
  IpamObserver,
  KernelPod,
  Rest,
  RestingAddress,
  RouteSink,
  RouteView,
  Stock,
} from "../base/ports.ts";
import { inspect, type PodReport, reconcilePods } from "./reconcile.ts";
import { ReportLog } from "./report_log.ts";
import { DEFAULT_WATER_MARKS, waterStock } from "../blocks/stock.ts";

const log = getLogger("node-ipam");

/** Pauses between attempts at the list without which no pod gets an address. */
const FIRST_LIST = { initialMs: 200, maxMs: 5_000, jitter: 1 };

export interface NodeIpamOptions {
  readonly source: BlockSource;
  readonly routes: RouteSink;
  /** Asked before a block is given back; without it, only the table is. */
  readonly kernel?: RouteView;
  readonly clock?: Clock;
  readonly observer?: IpamObserver;
  /** How long one allocation may wait. Default 10 s, as upstream. */
  readonly requestTimeoutMs?: number;
  /** How long one request for a block may take; it outlives the allocations that wait for it. Default 60 s. */
  readonly blockTimeoutMs?: number;
  /** How much room is kept in store. Default: between the default water marks. */
  readonly stock?: Stock;
  /** How long a freed address rests before it is given again. Default 0. */
  readonly cooldownMs?: number;
  /** Whether addresses that rest are given when there are no others. Default: preferred, so they are. */
  readonly rest?: Rest;
  /** Called with the addresses of an attachment that is gone. Must not throw. */
  readonly onFreed?: (addresses: DualStack<Address>) => void;
  /**
   * How long a block must have been empty before it is given back, half to one and a half times this; no longer than
   * 30 s while the pool is low. Default 30 s.
   */
  readonly returnDelayMs?: number;
  /** The same while the pool is ample; not less. Default: no other. */
  readonly ampleReturnDelayMs?: number;
  /** A number from 0 to below 1 for the name of a block, by which times are spread. Default 0.5 for all. */
  readonly jitterOf?: (block: string) => number;
  /**
   * About how often {@linkcode NodeIpam.reconcile} lists blocks; at each time without it. What is seen of single blocks
   * in between leads to a list at once where it contradicts what is known.
   */
  readonly relistMs?: number;
  /** An attachment that the kernel lacks is not freed before it is this old. Default 5 min. */
  readonly graceMs?: number;
  /** The kernel must lack it in two reconciliations at least this far apart. Default 30 s. */
  readonly confirmMs?: number;
  /**
   * Puts off the look at the blocks that follows an allocation, so that its caller goes on first. Default: to the end of
   * the turn.
   */
  readonly putOff?: (look: () => void) => void;
  /** Called after each look at the blocks, which follows all that happens to addresses. Must not throw. */
  readonly onLook?: () => void;
  /**
   * Whether an ADD or DEL of a key (`<container ID>:<interface>`) is under way: asked right before its addresses would
   * be freed since the kernel lacks it. Default: none ever is.
   */
  readonly isBusy?: (key: string) => boolean;
}

/** Findings and changes of {@linkcode NodeIpam.reconcile}. */
export interface ReconcileReport extends PodReport {
  /** What the live list of blocks changed, nothing if it was not due; or why there was none. */
  readonly blocks: BlockChanges | { readonly error: unknown };
  /** Blocks that are there, but not usable. */
  readonly unusableBlocks: readonly BlockRecord[];
}

/**
 * The addresses of one node: gives them to attachments, takes them back, and keeps as many blocks as that needs.
 *
 * All decisions are synchronous steps on the address table, so no lock is held while anything is
 * waited for, and attachments never wait for each other except for one shared request per pool. The
 * states of an address, and why, are in `docs/decisions/0002-address-states.md`.
 */
export class NodeIpam extends Allocations implements AsyncDisposable {
  readonly #options: NodeIpamOptions;
  readonly #clock: Clock;
  readonly #reports = new ReportLog();
  readonly #table: AddressTable;
  readonly #tasks: TaskGroup;
  readonly #keeper: BlockKeeper;
  #ready = false;
  #relistAt = 0;

  constructor(options: NodeIpamOptions) {
    const { source, clock = systemClock, returnDelayMs = 30_000 } = options;
    const { observer = {} } = options;
    const tasks = new TaskGroup();
    const table = new AddressTable({
      cooldownMs: options.cooldownMs ?? 0,
      rest: options.rest,
      reservedOf: (pool) => source.reserved(pool),
    });
    const keeper = new BlockKeeper({
      table,
      tasks,
      source,
      routes: options.routes,
      kernel: options.kernel,
      clock,
      observer,
      stock: options.stock ?? waterStock(DEFAULT_WATER_MARKS),
      blockTimeoutMs: options.blockTimeoutMs ?? 60_000,
      returnDelayMs,
      ampleReturnDelayMs: options.ampleReturnDelayMs ?? returnDelayMs,
      jitterOf: options.jitterOf ?? (() => 0.5),
      onLook: options.onLook ?? (() => {}),
      putOff: options.putOff ?? queueMicrotask,
    });
    const timeoutMs = options.requestTimeoutMs ?? 10_000;
    const { onFreed = () => {} } = options;
    super({ table, keeper, source, clock, observer, timeoutMs, onFreed });
    this.#options = options;
    this.#clock = clock;
    this.#table = table;
    this.#tasks = tasks;
    this.#keeper = keeper;
  }

  /** Whether {@linkcode NodeIpam.start} has ended: before, releases work and allocations are refused. */
  override get isReady(): boolean {
    return this.#ready;
  }

  /**
   * Rebuilds the table from the pods of the kernel and a live list of blocks. Ends only when that list has succeeded.
   *
   * Addresses that no block covers are quarantined: they are never given out, and their release works. Those in
   * `resting` that no pod has go on resting.
   *
   * @throws the signal's reason when it aborts
   */
  async start(
    pods: readonly KernelPod[],
    { signal, resting = [] }: {
      readonly signal: AbortSignal;
      readonly resting?: readonly RestingAddress[];
    },
  ): Promise<void> {
    const now = this.#clock.nowMs();
    this.#table.takeRests(resting, now);
    const comparison = reconcilePods(this.#table, pods, {
      ...this.#reconcileOptions(now),
      isFresh: () => false,
    });
    await retry(async () => {
      try {
        await this.#keeper.refresh(signal);
      } catch (err) {
        if (!signal.aborted) {
          log.warn("Cannot list blocks; retrying", { err });
        }
        throw err;
      }
    }, { signal, backoff: new Backoff(FIRST_LIST) });
    this.#ready = true;
    // mutate: before or after the next.
    this.#planRelist();
    await this.#keeper.begin();
    // Which addresses are covered is known only now.
    const inspection = inspect(this.#table, this.#reconcileOptions(now));
    this.#reports.record({ ...comparison, ...inspection, registered: [] });
  }

  /**
   * Runs until the signal aborts, then ends all background work.
   *
   * @throws an unexpected error that ended the background work before: without that, blocks no longer come or go
   */
  async run(signal: AbortSignal): Promise<void> {
    await Promise.race([
      untilAborted(signal),
      untilAborted(this.#tasks.signal),
    ]);
    await this[Symbol.asyncDispose]();
    await this.#tasks.wait();
  }

  /** Ends all background work. Allocations that wait fail. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#ready = false;
    this.endWaits();
    // mutate: before or after the next; tasks that have ended begin nothing.
    this.#keeper.close();
    await this.#tasks[Symbol.asyncDispose]();
  }

  /** All blocks of this node. */
  blocks(): BlockRecord[] {
    return [...this.#table.blocks.values()].map(blockRecordOf);
  }

  /** Numbers of every pool that has blocks or attachments here, or for which an allocation waits. */
  stats(): PoolStats[] {
    const { supply } = this.#keeper;
    const pools = new Set([...this.#table.pools, ...supply.pools]);
    for (const { pool } of this.#table.attachments.values()) pools.add(pool);
    return [...pools].sort().map((pool) =>
      statsOf(this.#table, pool, {
        waiting: supply.waiting(pool),
        requesting: supply.isFlying(pool),
      })
    );
  }

  /** How many allocations of the pool wait. */
  waiting(pool: string): number {
    return this.#keeper.supply.waiting(pool);
  }

  /** Takes the blocks of this node as the watch shows them, all of them. A hint: see {@linkcode BlockView}. */
  onBlocksChanged(blocks: readonly BlockInfo[]): void {
    this.#keeper.observe(blocks);
  }

  /** To be called when pools have changed: one may be deleted, have room again, or reserve other addresses. */
  onPoolsChanged(): void {
    this.#table.reserve();
    this.#keeper.poolsChanged();
  }

  /**
   * Compares the table with the pods of the kernel and, when that is due, with a live list of blocks, and repairs what
   * is certain. A failing list is reported, not thrown.
   */
  async reconcile(
    pods: readonly KernelPod[],
    { signal }: { readonly signal: AbortSignal },
  ): Promise<ReconcileReport> {
    const options = this.#reconcileOptions(this.#clock.nowMs());
    const report = reconcilePods(this.#table, pods, options);
    for (const record of report.freed) this.noteFreed(record);
    let blocks: ReconcileReport["blocks"] = { adopted: [], vanished: [] };
    try {
      if (this.#clock.nowMs() >= this.#relistAt) {
        blocks = await this.#keeper.refresh(signal);
        this.#planRelist();
      }
    } catch (error) {
      signal.throwIfAborted();
      blocks = { error };
    }
    this.#keeper.exportRoutes();
    const found = { ...report, ...inspect(this.#table, options) };
    this.#reports.record(found);
    const unusableBlocks = this.blocks().filter((b) => b.holds.length > 0);
    return { ...found, blocks, unusableBlocks };
  }

  /**
   * Makes the export table whole, no matter who took routes out of it. Resolves to
   * false when that failed; it is tried again.
   */
  async restoreExport(
    { signal }: { readonly signal: AbortSignal },
  ): Promise<boolean> {
    return await this.#keeper.flushExport(signal);
  }

  #planRelist(): void {
    const { relistMs = 0 } = this.#options;
    this.#relistAt = this.#clock.nowMs() + jittered(relistMs);
  }

  #reconcileOptions(now: number): Parameters<typeof reconcilePods>[2] {
    const { graceMs = 300_000, confirmMs = 30_000 } = this.#options;
    const isFresh = (key: string) => this.wasJustReleased(key);
    const { isBusy = () => false } = this.#options;
    return { now, graceMs, confirmMs, isFresh, isBusy };
  }
}
