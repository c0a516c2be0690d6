import {
  abortable,
  type Clock,
  sleep,
  type TaskGroup,
  withTimeout,
} from "../../async/mod.ts";
import type { AddressTable } from "./address_table.ts";
import { BlockReturns } from "./block_returns.ts";
import { type Adoption, BlockSupply } from "./block_supply.ts";
import { type BlockChanges, BlockView } from "./block_view.ts";
import type { HeldBlock } from "./held_block.ts";
import type {
  BlockInfo,
  BlockSource,
  IpamLogger,
  IpamObserver,
  RouteSink,
  RouteView,
} from "../base/ports.ts";
import { RouteExport } from "./route_export.ts";
import type { WaterMarks } from "./water_marks.ts";

/** What {@linkcode BlockKeeper} works with. */
export interface BlockKeeperOptions {
  readonly table: AddressTable;
  readonly tasks: TaskGroup;
  readonly source: BlockSource;
  readonly routes: RouteSink;
  readonly kernel: RouteView | undefined;
  readonly clock: Clock;
  readonly log: IpamLogger;
  readonly observer: IpamObserver;
  readonly waterMarks: WaterMarks;
  readonly blockTimeoutMs: number;
  readonly refusalMs: number;
  readonly returnDelayMs: number;
  readonly exportWaitMs: number;
}

/** After a live list in the background has failed. */
const RELIST_MS = 2_000;

/** One list, or one return of a block, takes no longer. */
const REQUEST_TIMEOUT_MS = 30_000;

/**
 * Keeps as many blocks as the node needs: fetches ahead below the low-water mark, gives empty ones back above the
 * high-water mark, follows what the API server says of them, and keeps the export table in step.
 *
 * Level-based: {@linkcode BlockKeeper.kick} looks at the whole table and decides anew, whatever happened.
 */
export class BlockKeeper {
  /** Requests for blocks, and who waits for them. */
  readonly supply: BlockSupply;
  readonly #options: BlockKeeperOptions;
  readonly #routes: RouteExport;
  readonly #returns: BlockReturns;
  readonly #view: BlockView;
  #begun = false;
  #kicked = false;
  #relisting = false;
  #timer: Disposable | undefined;

  constructor(options: BlockKeeperOptions) {
    this.#options = options;
    const { table, tasks, source, clock, log, observer } = options;
    const kick = () => this.kick();
    this.#routes = new RouteExport({
      sink: options.routes,
      prefixes: () => table.exportedPrefixes(),
      clock,
      tasks,
      log,
    });
    this.supply = new BlockSupply({
      source,
      clock,
      tasks,
      log,
      observer,
      adopt: (info) => this.#adopt(info),
      roomIsComing: (pool) => table.freeCount(pool) > 0,
      isReleasing: (pool) => table.isReleasing(pool),
      isReturning: (pool) => this.#returns.isReturning(pool),
      landed: () => this.#landed(),
      refusalMs: options.refusalMs,
      requestMs: options.blockTimeoutMs,
    });
    this.#view = new BlockView({
      table,
      list: () =>
        withTimeout(
          REQUEST_TIMEOUT_MS,
          (signal) => abortable(source.list({ signal }), signal),
          { clock, signal: tasks.signal },
        ),
      now: () => clock.nowMs(),
      log,
      isAwaited: (pool) => this.supply.isFlying(pool),
      adopted: (block) => this.#announce(block),
      changed: () => this.#blocksChanged(),
    });
    this.#returns = new BlockReturns({
      source,
      clock,
      tasks,
      log,
      observer,
      table,
      routes: this.#routes,
      kernel: options.kernel,
      marks: options.waterMarks,
      waiting: (pool) => this.supply.waiting(pool),
      returned: (block) => this.#view.forget(block),
      changed: kick,
      returnDelayMs: options.returnDelayMs,
      releaseTimeoutMs: REQUEST_TIMEOUT_MS,
    });
  }

  /** Begins to fetch and to return. Resolves when the export table is right, or cannot be written. */
  async begin(): Promise<void> {
    this.#begun = true;
    await abortable(this.#routes.flush(), this.#options.tasks.signal);
    this.#relistIfPuzzled();
    this.kick();
  }

  /** Ends all waits for a time. */
  close(): void {
    this.#begun = false;
    this.#timer?.[Symbol.dispose]();
    this.#routes.close();
  }

  /** Lists live and applies it. */
  async refresh(signal: AbortSignal): Promise<BlockChanges> {
    return await abortable(this.#view.refresh(), signal);
  }

  /** Takes what the watch shows. Before the start it is only kept. */
  observe(blocks: readonly BlockInfo[]): void {
    if (this.#view.observe(blocks)) this.#relistIfPuzzled();
  }

  /** Something about the pools has changed. */
  poolsChanged(): void {
    this.supply.forgetRefusals();
    this.supply.wakeAll();
    this.kick();
  }

  /** An address has become free. */
  freed(): void {
    this.supply.wakeAll();
    this.kick();
  }

  /** Makes the export table follow, in the background. Not before the blocks are known: it would be emptied. */
  exportRoutes(): void {
    if (this.#begun) this.#routes.request();
  }

  /** Makes the export table whole now: false when that failed. Nothing to do before the blocks are known. */
  async flushExport(signal: AbortSignal): Promise<boolean> {
    return !this.#begun || await abortable(this.#routes.flush(), signal);
  }

  /** Frees what has cooled down. */
  purge(): void {
    const now = this.#options.clock.nowMs();
    for (const block of this.#options.table.blocks.values()) block.purge(now);
  }

  /** Plans a look at the whole table at the end of this turn. */
  kick(): void {
    if (this.#kicked || !this.#begun) return;
    this.#kicked = true;
    queueMicrotask(() => {
      this.#kicked = false;
      if (this.#begun) this.#maintain();
    });
  }

  #maintain(): void {
    const { table, clock } = this.#options;
    this.purge();
    let dueAt = Infinity;
    for (const pool of table.pools) {
      dueAt = Math.min(dueAt, this.#fetchAhead(pool));
    }
    dueAt = Math.min(dueAt, this.#returns.consider());
    for (const { coolingUntil } of table.blocks.values()) {
      dueAt = Math.min(dueAt, coolingUntil ?? Infinity);
    }
    this.#timer?.[Symbol.dispose]();
    this.#timer = dueAt === Infinity
      ? undefined
      : clock.after(Math.max(1, dueAt - clock.nowMs()), () => this.#maintain());
  }

  /** Asks for a block when the pool's room is below the low-water mark. Returns when to look again. */
  #fetchAhead(pool: string): number {
    const { table, waterMarks, source, clock } = this.#options;
    const [block] = table.blocksOf(pool);
    if (block === undefined || !this.#isInUse(pool)) return Infinity;
    if (table.freeCount(pool) >= waterMarks.low(block.size)) return Infinity;
    const state = source.poolState(pool);
    if (state === "deleting" || state === "absent") return Infinity;
    const pausedUntil = this.supply.pausedUntil(pool);
    if (pausedUntil > clock.nowMs()) return pausedUntil;
    this.supply.prefetch(pool);
    return Infinity;
  }

  #isInUse(pool: string): boolean {
    return this.supply.waiting(pool) > 0 ||
      this.#options.table.heldCount(pool) > 0;
  }

  #adopt(info: BlockInfo): Adoption {
    const block = this.#view.adopt(info);
    if (block === undefined) return "stale";
    if (block.holds.has("overlapping")) return "unusable";
    return block.isPromising && block.freeCount > 0 ? "usable" : "stale";
  }

  /** Nothing is given out of a new block before its route is in the export table, or that has taken too long. */
  #announce(block: HeldBlock): void {
    const { clock, tasks, exportWaitMs, log } = this.#options;
    block.holds.add("unexported");
    const end = () => {
      if (!block.holds.delete("unexported")) return;
      this.supply.wake(block.info.pool);
      this.kick();
    };
    tasks.run("export of a new block", async (signal) => {
      using _timer = clock.after(exportWaitMs, () => {
        const { pool, name } = block.info;
        log.warn("A block is used before its route is exported", {
          pool,
          block: name,
        });
        end();
      });
      await abortable(this.#routes.flush(), signal);
      end();
    });
  }

  #blocksChanged(): void {
    this.exportRoutes();
    this.supply.wakeAll();
    this.kick();
  }

  /** A block that the watch showed during the request may be another one. */
  #landed(): void {
    this.#relistIfPuzzled();
    this.kick();
  }

  #relistIfPuzzled(): void {
    const { tasks } = this.#options;
    if (!this.#begun || this.#relisting || !this.#view.isPuzzled()) return;
    this.#relisting = true;
    tasks.run("live list", async (signal) => {
      try {
        await this.#relist(signal);
      } finally {
        this.#relisting = false;
      }
    });
  }

  async #relist(signal: AbortSignal): Promise<void> {
    const { clock, log } = this.#options;
    while (this.#view.isPuzzled()) {
      try {
        await this.refresh(signal);
        // What is left is what the watch has yet to learn.
        return;
      } catch (err) {
        signal.throwIfAborted();
        log.info("Cannot list blocks; trying again", { err });
      }
      await sleep(RELIST_MS, { clock, signal });
    }
  }
}
