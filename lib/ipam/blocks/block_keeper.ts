import {
  abortable,
  type Clock,
  FreshRun,
  jittered,
  sleep,
  type TaskGroup,
  withTimeout,
} from "../../async/mod.ts";
import { getLogger } from "../../telemetry/mod.ts";
import type { AddressTable } from "../table/address_table.ts";
import { BlockSupply } from "./block_supply.ts";
import { type BlockChanges, BlockView } from "./block_view.ts";
import { decide, type PoolStateSince } from "./decide.ts";
import { giveBack } from "./give_back.ts";
import type { HeldBlock } from "../table/held_block.ts";
import type {
  BlockInfo,
  BlockSource,
  IpamObserver,
  RouteSink,
  RouteView,
  Stock,
} from "../base/ports.ts";
import { type Adoption, requestBlocks } from "./request_blocks.ts";
import { RouteExport } from "./route_export.ts";

const log = getLogger("node-ipam");

export interface BlockKeeperOptions {
  readonly table: AddressTable;
  readonly tasks: TaskGroup;
  readonly source: BlockSource;
  readonly routes: RouteSink;
  readonly kernel: RouteView | undefined;
  readonly clock: Clock;
  readonly observer: IpamObserver;
  readonly stock: Stock;
  readonly blockTimeoutMs: number;
  readonly returnDelayMs: number;
  readonly ampleReturnDelayMs: number;
  /** A number from 0 to below 1 for the name of a block, by which returns are spread. */
  readonly jitterOf: (block: string) => number;
  /** Puts off the look that follows an allocation. */
  readonly putOff: (look: () => void) => void;
  /** Called after each look at the whole table. */
  readonly onLook: () => void;
}

/** After a live list in the background has failed. */
const RELIST_MS = 2_000;

/** How long the first address of a new block may wait for its route. */
const EXPORT_WAIT_MS = 250;

/** One list, or one return of a block, takes no longer. */
const REQUEST_TIMEOUT_MS = 30_000;

/**
 * Keeps as many blocks as the node needs: fetches ahead below the low-water mark, gives empty ones back above the
 * high-water mark, follows what the API server says of them, and keeps the export table in step.
 *
 * Level-based: after any change {@linkcode BlockKeeper.kick} lets `decide()` look at the whole table again.
 */
export class BlockKeeper {
  /** Requests for blocks, and who waits for them. */
  readonly supply: BlockSupply;
  readonly #options: BlockKeeperOptions;
  readonly #routes: RouteExport;
  readonly #view: BlockView;
  readonly #lists = new FreshRun(() => this.#list());
  /** Blocks whose return is under way. */
  readonly #flying = new Set<HeldBlock>();
  readonly #states = new Map<string, PoolStateSince>();
  #begun = false;
  #kicked = false;
  #putOff = false;
  #relisting = false;
  #timer: Disposable | undefined;

  constructor(options: BlockKeeperOptions) {
    this.#options = options;
    const { table, tasks, clock } = options;
    this.#routes = new RouteExport({
      sink: options.routes,
      table,
      clock,
      tasks,
    });
    this.supply = new BlockSupply({ table, clock });
    this.#view = new BlockView({ table, clock, supply: this.supply });
  }

  /** Begins to fetch and to return. Resolves when the export table is right, or cannot be written. */
  async begin(): Promise<void> {
    this.#begun = true;
    await abortable(this.#routes.flush(), this.#options.tasks.signal);
    this.#relistIfPuzzled();
    // mutate: the export of each block does so too, if it has not ended yet.
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
    return await abortable(this.#lists.do(), signal);
  }

  /** Takes what the watch shows. Before the start it is only kept. */
  observe(blocks: readonly BlockInfo[]): void {
    this.#view.observe(blocks);
    this.#blocksChanged();
    this.#relistIfPuzzled();
  }

  /** Waits until there may be room in the pool, and requests a block for that. */
  async wait(pool: string, signal: AbortSignal): Promise<void> {
    const woken = this.supply.waiters.wait(pool, signal);
    if (!this.supply.isComing(pool)) this.#request(pool);
    await woken;
  }

  /** Something about the pools has changed. */
  poolsChanged(): void {
    this.supply.forgetRefusals();
    this.supply.waiters.wakeAll();
    this.kick();
  }

  /** An address has become free. */
  freed(): void {
    this.supply.waiters.wakeAll();
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

  /** Plans a look at the whole table at the end of this turn. */
  kick(): void {
    if (this.#kicked || !this.#begun) return;
    // mutate: only saves looks.
    this.#kicked = true;
    queueMicrotask(() => {
      this.#kicked = false;
      if (this.#begun) this.#maintain();
    });
  }

  /** As {@linkcode BlockKeeper.kick}, but the caller that got an address goes on first. */
  kickLater(): void {
    if (this.#putOff) return;
    // mutate: only saves looks.
    this.#putOff = true;
    this.#options.putOff(() => {
      this.#putOff = false;
      this.kick();
    });
  }

  #maintain(): void {
    const { table, clock } = this.#options;
    if (table.purge(clock.nowMs())) this.supply.waiters.wakeAll();
    this.#noteStates();
    const { fetch, retire, giveBack, keep, dueAt } = decide(table, {
      ...this.#options,
      now: clock.nowMs(),
      supply: this.supply,
      flying: this.#flying,
      states: this.#states,
    });
    for (const pool of fetch) this.#request(pool);
    for (const block of retire) block.holds.add("returning");
    for (const blocks of giveBack) this.#giveBack(blocks);
    for (const block of keep) this.#keep(block);
    this.#timer?.[Symbol.dispose]();
    this.#timer = dueAt === Infinity
      ? undefined
      : clock.after(Math.max(1, dueAt - clock.nowMs()), () => this.#maintain());
    this.#options.onLook();
  }

  #noteStates(): void {
    const { table, source, clock } = this.#options;
    const { pools } = table;
    for (const pool of this.#states.keys()) {
      if (!pools.includes(pool)) this.#states.delete(pool);
    }
    for (const pool of pools) {
      const state = source.poolState(pool);
      if (this.#states.get(pool)?.state === state) continue;
      this.#states.set(pool, { state, since: clock.nowMs() });
    }
  }

  #request(pool: string): void {
    const { tasks, blockTimeoutMs: timeoutMs } = this.#options;
    if (tasks.signal.aborted || !this.supply.begin(pool)) return;
    tasks.run("block request", async (signal) => {
      try {
        await requestBlocks(pool, {
          ...this.#options,
          supply: this.supply,
          flying: this.#flying,
          adopt: (infos) => this.#adopt(infos),
          relist: (signal) => this.refresh(signal),
          timeoutMs,
          signal,
        });
      } finally {
        this.supply.end(pool);
        // A block that the watch showed during the request may be another one.
        this.#relistIfPuzzled();
        this.kick();
        this.supply.waiters.wake(pool);
      }
    });
  }

  #giveBack(blocks: readonly HeldBlock[]): void {
    for (const block of blocks) this.#flying.add(block);
    this.#options.tasks.run("block return", async (signal) => {
      try {
        const gone = await giveBack(blocks, {
          ...this.#options,
          routes: this.#routes,
          timeoutMs: REQUEST_TIMEOUT_MS,
          signal,
        });
        for (const block of gone) this.#view.forget(block);
      } finally {
        for (const block of blocks) this.#flying.delete(block);
        this.kick();
      }
    });
  }

  #keep(block: HeldBlock): void {
    block.holds.delete("returning");
    block.giveBack = undefined;
    this.#routes.request();
  }

  #adopt(infos: readonly BlockInfo[]): Adoption[] {
    const { sequence } = this.#options.table;
    const blocks = infos.map((info) => this.#view.adopt(info));
    this.#announce(
      blocks.filter((block) => block !== undefined)
        .filter((block) => block.sequence > sequence),
    );
    return blocks.map((block) => {
      if (block === undefined) return "stale";
      if (block.holds.has("overlapping")) return "unusable";
      // Of a new one whose addresses all rest some come by themselves.
      const isNew = block.sequence > sequence;
      const hasRoom = block.freeCount > 0 || (isNew && block.coolingCount > 0);
      return block.isPromising && hasRoom ? "usable" : "stale";
    });
  }

  /** Nothing is given out of new blocks before their routes are in the export table, or that has taken too long. */
  #announce(blocks: readonly HeldBlock[]): void {
    const { clock, tasks } = this.#options;
    if (blocks.length === 0) return;
    for (const block of blocks) block.holds.add("unexported");
    const end = () => {
      const ended = blocks.filter(({ holds }) => holds.delete("unexported"));
      for (const pool of new Set(ended.map(({ info }) => info.pool))) {
        this.supply.waiters.wake(pool);
      }
      if (ended.length > 0) this.kick();
    };
    tasks.run("export of new blocks", async (signal) => {
      using _timer = clock.after(EXPORT_WAIT_MS, () => {
        log.warn("Blocks are used before their routes are exported", {
          blocks: blocks.map(({ info }) => info.name),
        });
        end();
      });
      await abortable(this.#routes.flush(), signal);
      end();
    });
  }

  async #list(): Promise<BlockChanges> {
    const { source, clock, tasks } = this.#options;
    const apply = this.#view.beginList();
    const blocks = await withTimeout(
      REQUEST_TIMEOUT_MS,
      (signal) => abortable(source.list({ signal }), signal),
      { clock, signal: tasks.signal },
    );
    const changes = apply(blocks);
    this.#announce(changes.adopted);
    this.#blocksChanged();
    return changes;
  }

  #blocksChanged(): void {
    this.exportRoutes();
    this.supply.waiters.wakeAll();
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
    const { clock } = this.#options;
    while (this.#view.isPuzzled()) {
      try {
        await this.refresh(signal);
        // What is left is what the watch has yet to learn.
        return;
      } catch (err) {
        // mutate: else there is a record more at the end.
        signal.throwIfAborted();
        log.info("Cannot list blocks; retrying", { err });
      }
      await sleep(jittered(RELIST_MS), { clock, signal });
    }
  }
}
