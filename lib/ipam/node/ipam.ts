import { Backoff, jittered, retry, untilAborted } from "../../async/mod.ts";
import { getLogger } from "../../telemetry/mod.ts";
import { Allocations } from "./allocations.ts";
import { contextOf, type NodeIpamOptions } from "../blocks/context.ts";
import {
  type BlockRecord,
  blockRecordOf,
  type PoolStats,
  statsOf,
} from "../table/stats.ts";
import type { BlockInfo, KernelPod, RestingAddress } from "../base/ports.ts";
import { inspect, type PodReport, reconcilePods } from "./reconcile.ts";
import { ReportLog } from "./report_log.ts";

const log = getLogger("node-ipam");

/** Pauses between attempts at the list without which no pod gets an address. */
const FIRST_LIST = { initialMs: 200, maxMs: 5_000, jitter: 1 };

/**
 * The addresses of one node: gives them to attachments, takes them back, and keeps as many blocks as that needs.
 *
 * All decisions are synchronous steps on the address table, so no lock is held while anything is
 * waited for, and attachments never wait for each other except for one shared request per pool. The
 * states of an address, and why, are in `docs/decisions/0002-address-states.md`.
 */
export class NodeIpam extends Allocations implements AsyncDisposable {
  readonly #reports = new ReportLog();
  #ready = false;
  #relistAt = 0;

  constructor(options: NodeIpamOptions) {
    super(contextOf(options));
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
    const { table, clock } = this.context;
    const now = clock.nowMs();
    table.takeRests(resting, now);
    const options = { ...this.context, now, isFresh: () => false };
    const comparison = reconcilePods(table, pods, options);
    await retry(async () => {
      try {
        await this.keeper.refresh(signal);
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
    await this.keeper.begin();
    // Which addresses are covered is known only now.
    const inspection = inspect(table, options);
    this.#reports.record({ ...comparison, ...inspection, registered: [] });
  }

  /**
   * Runs until the signal aborts, then ends all background work.
   *
   * @throws an unexpected error that ended the background work before: without that, blocks no longer come or go
   */
  async run(signal: AbortSignal): Promise<void> {
    const { tasks } = this.context;
    await Promise.race([untilAborted(signal), untilAborted(tasks.signal)]);
    await this[Symbol.asyncDispose]();
    await tasks.wait();
  }

  /** Ends all background work. Allocations that wait fail. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#ready = false;
    this.endWaits();
    // mutate: before or after the next; tasks that have ended begin nothing.
    this.keeper.close();
    await this.context.tasks[Symbol.asyncDispose]();
  }

  /** All blocks of this node. */
  blocks(): BlockRecord[] {
    return [...this.context.table.blocks.values()].map(blockRecordOf);
  }

  /** Numbers of every pool that has blocks or attachments here, or for which an allocation waits. */
  stats(): PoolStats[] {
    const { supply, table } = this.context;
    const pools = new Set([...table.pools, ...supply.pools]);
    for (const { pool } of table.attachments.values()) pools.add(pool);
    return [...pools].sort().map((pool) =>
      statsOf(table, pool, {
        waiting: supply.waiting(pool),
        requesting: supply.isFlying(pool),
      })
    );
  }

  /** How many allocations of the pool wait. */
  waiting(pool: string): number {
    return this.context.supply.waiting(pool);
  }

  /** Takes the blocks of this node as the watch shows them, all of them. A hint: see {@linkcode BlockView}. */
  onBlocksChanged(blocks: readonly BlockInfo[]): void {
    this.keeper.observe(blocks);
  }

  /** To be called when pools have changed: one may be deleted, have room again, or reserve other addresses. */
  onPoolsChanged(): void {
    this.context.table.reserve();
    this.keeper.poolsChanged();
  }

  /**
   * Compares the table with the pods of the kernel and, when that is due, with a live list of blocks, and repairs what
   * is certain. A list that fails is made again by the next call.
   */
  async reconcile(
    pods: readonly KernelPod[],
    { signal }: { readonly signal: AbortSignal },
  ): Promise<PodReport> {
    const { table, clock } = this.context;
    const isFresh = (key: string) => this.wasJustReleased(key);
    const options = { ...this.context, now: clock.nowMs(), isFresh };
    const report = reconcilePods(table, pods, options);
    for (const record of report.freed) this.noteFreed(record);
    try {
      if (clock.nowMs() >= this.#relistAt) {
        await this.keeper.refresh(signal);
        this.#planRelist();
      }
    } catch {
      signal.throwIfAborted();
    }
    this.keeper.exportRoutes();
    const found = { ...report, ...inspect(table, options) };
    this.#reports.record(found);
    return found;
  }

  /**
   * Makes the export table whole, no matter who took routes out of it. Resolves to
   * false when that failed; it is tried again.
   */
  async restoreExport(
    { signal }: { readonly signal: AbortSignal },
  ): Promise<boolean> {
    return await this.keeper.flushExport(signal);
  }

  #planRelist(): void {
    const { clock, relistMs } = this.context;
    this.#relistAt = clock.nowMs() + jittered(relistMs);
  }
}
