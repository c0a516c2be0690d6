import {
  abortable,
  FreshRun,
  jittered,
  sleep,
  withTimeout,
} from "../../async/mod.ts";
import { getLogger } from "../../telemetry/mod.ts";
import { BlockView } from "./block_view.ts";
import type { NodeContext } from "./context.ts";
import { decide, type PoolStateSince } from "./decide.ts";
import { giveBack } from "./give_back.ts";
import type { HeldBlock } from "../table/held_block.ts";
import type { BlockInfo } from "../base/ports.ts";
import { type Adoption, requestBlocks } from "./request_blocks.ts";
import { RouteExport } from "./route_export.ts";

const log = getLogger("node-ipam");

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
  readonly #context: NodeContext;
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

  constructor(context: NodeContext) {
    this.#context = context;
    this.#routes = new RouteExport(context);
    this.#view = new BlockView(context);
  }

  /** Begins to fetch and to return. Resolves when the export table is right, or cannot be written. */
  async begin(): Promise<void> {
    this.#begun = true;
    await abortable(this.#routes.flush(), this.#context.tasks.signal);
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
  async refresh(signal: AbortSignal): Promise<void> {
    await abortable(this.#lists.do(), signal);
  }

  /** Takes what the watch shows. Before the start it is only kept. */
  observe(blocks: readonly BlockInfo[]): void {
    this.#view.observe(blocks);
    this.#blocksChanged();
    this.#relistIfPuzzled();
  }

  /** Waits until there may be room in the pool, and requests a block for that. */
  async wait(pool: string, signal: AbortSignal): Promise<void> {
    const { supply } = this.#context;
    const woken = supply.waiters.wait(pool, signal);
    if (!supply.isComing(pool)) this.#request(pool);
    await woken;
  }

  /** Something about the pools has changed. */
  poolsChanged(): void {
    this.#context.supply.forgetRefusals();
    this.#context.supply.waiters.wakeAll();
    this.kick();
  }

  /** An address has become free. */
  freed(): void {
    this.#context.supply.waiters.wakeAll();
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
    this.#context.putOff(() => {
      this.#putOff = false;
      this.kick();
    });
  }

  #maintain(): void {
    const { table, clock, supply } = this.#context;
    if (table.purge(clock.nowMs())) supply.waiters.wakeAll();
    this.#noteStates();
    const { fetch, retire, giveBack, keep, dueAt } = decide(table, {
      ...this.#context,
      now: clock.nowMs(),
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
    this.#context.onLook();
  }

  #noteStates(): void {
    const { table, source, clock } = this.#context;
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
    const { supply, tasks } = this.#context;
    if (tasks.signal.aborted || !supply.begin(pool)) return;
    tasks.run("block request", async (signal) => {
      try {
        await requestBlocks(pool, {
          ...this.#context,
          flying: this.#flying,
          adopt: (infos) => this.#adopt(infos),
          relist: (signal) => this.refresh(signal),
          signal,
        });
      } finally {
        supply.end(pool);
        // A block that the watch showed during the request may be another one.
        this.#relistIfPuzzled();
        this.kick();
        supply.waiters.wake(pool);
      }
    });
  }

  #giveBack(blocks: readonly HeldBlock[]): void {
    for (const block of blocks) this.#flying.add(block);
    this.#context.tasks.run("block return", async (signal) => {
      try {
        const gone = await giveBack(blocks, {
          ...this.#context,
          exported: this.#routes,
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
    const { sequence } = this.#context.table;
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
    const { clock, supply, tasks } = this.#context;
    if (blocks.length === 0) return;
    for (const block of blocks) block.holds.add("unexported");
    const end = () => {
      const ended = blocks.filter(({ holds }) => holds.delete("unexported"));
      for (const pool of new Set(ended.map(({ info }) => info.pool))) {
        supply.waiters.wake(pool);
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

  async #list(): Promise<void> {
    const { source, clock, tasks } = this.#context;
    const apply = this.#view.beginList();
    const blocks = await withTimeout(
      REQUEST_TIMEOUT_MS,
      (signal) => abortable(source.list({ signal }), signal),
      { clock, signal: tasks.signal },
    );
    this.#announce(apply(blocks));
    this.#blocksChanged();
  }

  #blocksChanged(): void {
    this.exportRoutes();
    this.#context.supply.waiters.wakeAll();
    this.kick();
  }

  #relistIfPuzzled(): void {
    const { tasks } = this.#context;
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
    const { clock } = this.#context;
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
