import {
  abortable,
  Backoff,
  type Clock,
  type TaskGroup,
  withTimeout,
} from "../../async/mod.ts";
import { valuesOf } from "../../inet/mod.ts";
import type { AddressTable } from "./address_table.ts";
import type { HeldBlock } from "./held_block.ts";
import type {
  BlockSource,
  IpamLogger,
  IpamObserver,
  RouteView,
} from "../base/ports.ts";
import type { RouteExport } from "./route_export.ts";
import type { WaterMarks } from "./water_marks.ts";

/** What {@linkcode BlockReturns} works with. */
export interface BlockReturnsOptions {
  readonly source: BlockSource;
  readonly clock: Clock;
  readonly tasks: TaskGroup;
  readonly log: IpamLogger;
  readonly observer: IpamObserver;
  readonly table: AddressTable;
  readonly routes: RouteExport;
  readonly kernel: RouteView | undefined;
  readonly marks: WaterMarks;
  /** How many allocations wait for room in the pool: it keeps all its blocks until they have been served. */
  readonly waiting: (pool: string) => number;
  /** Called when a block has been given back. */
  readonly returned: (block: HeldBlock) => void;
  /** Called when there is something to decide again. */
  readonly changed: () => void;
  /** How long a block must have been empty, so that a pod that comes back soon needs no request. */
  readonly returnDelayMs: number;
  readonly releaseTimeoutMs: number;
}

interface Return {
  readonly backoff: Backoff;
  /** When to try again. */
  retryAt: number;
  flying: boolean;
  /** Whether the API server has ever been asked: from then on the block may be gone at any time. */
  asked: boolean;
}

/** As many requests for return are under way at a time. */
const MAX_FLYING = 8;

/**
 * Gives empty blocks back.
 *
 * The order is what makes it safe: first nothing is given out of the block any more (at once, in the table), then its
 * route is withdrawn, then the kernel is asked whether it is unused indeed, then the API server. A failure never reaches a DEL, unlike upstream, where
 * DEL fails with it (and W1 follows). After a failure the block stays `returning`: the request may have been carried
 * out, or may still be, so nothing is given out of it until it is gone and granted anew.
 */
export class BlockReturns {
  readonly #options: BlockReturnsOptions;
  readonly #returns = new Map<HeldBlock, Return>();

  constructor(options: BlockReturnsOptions) {
    this.#options = options;
  }

  /** Whether a block of the pool is on its way back right now. */
  isReturning(pool: string): boolean {
    return [...this.#returns].some(([{ info }, { flying }]) =>
      flying && info.pool === pool
    );
  }

  /** Starts what can be returned now. Returns when to call again at the latest. */
  consider(): number {
    const { table } = this.#options;
    for (const block of this.#returns.keys()) {
      const held = table.blocks.get(block.info.uid) === block;
      if (!held && !this.#returns.get(block)?.flying) {
        this.#returns.delete(block);
      }
    }
    const dueAt = table.pools.map((pool) => this.#considerPool(pool));
    return Math.min(Infinity, ...dueAt);
  }

  #considerPool(pool: string): number {
    const { table, marks, waiting, clock } = this.#options;
    const now = clock.nowMs();
    let dueAt = Infinity;
    let free = table.freeCount(pool);
    // The highest first, so that a node's blocks gather at the low end of the pool.
    for (const block of table.blocksOf(pool).toReversed()) {
      if (block.holds.has("returning")) {
        dueAt = Math.min(dueAt, this.#advance(block, now));
        continue;
      }
      if (!this.#mayGo(block)) continue;
      if (!this.#mustGo(block)) {
        const inUse = table.heldCount(pool) > 0;
        const keep = inUse ? marks.high(block.size) : 0;
        if (waiting(pool) > 0 || free - block.freeCount < keep) continue;
        const at = (block.emptySince ?? now) + this.#options.returnDelayMs;
        if (at > now) {
          dueAt = Math.min(dueAt, at);
          continue;
        }
        free -= block.freeCount;
      }
      block.holds.add("returning");
      dueAt = Math.min(dueAt, this.#advance(block, now));
    }
    return dueAt;
  }

  #mayGo(block: HeldBlock): boolean {
    if (!block.isEmpty || block.holds.has("unconfirmed")) return false;
    if (block.holds.has("deleting")) return true;
    // A block taken over from Coil v1 has users that are not known here. One that overlaps another would only be
    // granted again, so it is kept and reported.
    return !block.holds.has("reserved") && !block.holds.has("overlapping") &&
      !block.holds.has("unexported");
  }

  #mustGo(block: HeldBlock): boolean {
    return block.holds.has("deleting") || block.holds.has("edited") ||
      this.#options.source.poolState(block.info.pool) === "deleting";
  }

  /** Starts an attempt when it is time. Returns when to look again. */
  #advance(block: HeldBlock, now: number): number {
    const state = this.#returns.get(block) ?? {
      backoff: new Backoff({ initialMs: 1_000, maxMs: 60_000 }),
      retryAt: now,
      flying: false,
      asked: false,
    };
    this.#returns.set(block, state);
    if (state.flying) return Infinity;
    if (!block.isEmpty) {
      // A pod with an address of it turned up in the kernel.
      if (!state.asked) {
        block.holds.delete("returning");
        this.#returns.delete(block);
        this.#options.routes.request();
      }
      return Infinity;
    }
    if (state.retryAt > now) return state.retryAt;
    const flying = [...this.#returns.values()].filter((r) => r.flying).length;
    if (flying >= MAX_FLYING) return Infinity;
    state.flying = true;
    this.#options.tasks.run(
      "block return",
      (signal) => this.#attempt(block, state, signal),
    );
    return Infinity;
  }

  async #attempt(
    block: HeldBlock,
    state: Return,
    signal: AbortSignal,
  ): Promise<void> {
    const { log, observer, clock, returned, changed } = this.#options;
    const { pool, name } = block.info;
    try {
      const gone = await this.#release(block, state, signal);
      if (!gone) return;
      log.info("Returned a block", { pool, block: name });
      observer.blockReturned?.({ pool, block: name, ok: true });
      returned(block);
    } catch (err) {
      if (signal.aborted) throw err;
      state.retryAt = clock.nowMs() + state.backoff.nextMs();
      observer.blockReturned?.({ pool, block: name, ok: false });
      log.warn("Cannot return a block; trying again", {
        pool,
        block: name,
        err,
      });
    } finally {
      state.flying = false;
      changed();
    }
  }

  async #release(
    block: HeldBlock,
    state: Return,
    signal: AbortSignal,
  ): Promise<boolean> {
    const { source, clock, routes, releaseTimeoutMs } = this.#options;
    if (!await abortable(routes.flush(), signal)) {
      // Another node could announce the block while this one still does.
      throw new Error("Cannot withdraw the route: the export table is stuck");
    }
    await abortable(this.#assertUnused(block), signal);
    if (!block.isEmpty) return false;
    state.asked = true;
    await withTimeout(
      releaseTimeoutMs,
      (inner) =>
        abortable(source.release(block.info, { signal: inner }), inner),
      { clock, signal },
    );
    return true;
  }

  /**
   * The table may be wrong: an alias that was changed by hand makes a living
   * pod look gone. On this node its route keeps others from its address, but
   * another node would know nothing of it.
   */
  async #assertUnused({ info }: HeldBlock): Promise<void> {
    const { kernel } = this.#options;
    const prefixes = valuesOf(info.prefixes);
    const [used] = await kernel?.routedWithin(prefixes) ?? [];
    if (used === undefined) return;
    throw new Error(
      `Cannot give the block back: the kernel has a route to "${used}"`,
    );
  }
}
