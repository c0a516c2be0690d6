import {
  abortable,
  Backoff,
  type Clock,
  withTimeout,
} from "../../async/mod.ts";
import { valuesOf } from "../../inet/mod.ts";
import type {
  BlockSource,
  IpamLogger,
  IpamObserver,
  RouteView,
} from "../base/ports.ts";
import type { GiveBack, HeldBlock } from "../table/held_block.ts";
import type { RouteExport } from "./route_export.ts";

/** What a return of a block needs. */
export interface GiveBackOptions {
  readonly source: BlockSource;
  readonly routes: RouteExport;
  readonly kernel: RouteView | undefined;
  readonly clock: Clock;
  readonly log: IpamLogger;
  readonly observer: IpamObserver;
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
}

/**
 * Tries to give back a block that is no longer allocated from. True when it is gone.
 *
 * The order is what makes it safe: its route is withdrawn, then the kernel is asked whether it is unused indeed, then
 * the API server. A failure never reaches a DEL, unlike upstream, where DEL fails with it (and W1 follows). After a
 * failure the block stays `returning`: the request may have been carried out, or may still be, so nothing is given
 * out of it until it is gone and granted again.
 */
export async function giveBack(
  block: HeldBlock,
  options: GiveBackOptions,
): Promise<boolean> {
  const { log, observer, clock, signal } = options;
  const { pool, name } = block.info;
  const attempts = block.giveBack ??= {
    backoff: new Backoff({ initialMs: 1_000, maxMs: 60_000 }),
    retryAt: clock.nowMs(),
    asked: false,
  };
  try {
    if (!await release(block, attempts, options)) return false;
    log.info("Returned a block", { pool, block: name });
    observer.blockReturned?.({ pool, block: name, ok: true });
    return true;
  } catch (err) {
    if (signal.aborted) throw err;
    attempts.retryAt = clock.nowMs() + attempts.backoff.nextMs();
    observer.blockReturned?.({ pool, block: name, ok: false });
    log.warn("Cannot return a block; retrying", { pool, block: name, err });
    return false;
  }
}

async function release(
  block: HeldBlock,
  attempts: GiveBack,
  { source, routes, kernel, clock, timeoutMs, signal }: GiveBackOptions,
): Promise<boolean> {
  if (!await abortable(routes.flush(), signal)) {
    // Another node could announce the block while this one still does.
    throw new Error("Cannot withdraw the route: the export table is stuck");
  }
  await abortable(assertUnused(block, kernel), signal);
  if (!block.isEmpty) return false;
  attempts.asked = true;
  await withTimeout(
    timeoutMs,
    (inner) => abortable(source.release(block.info, { signal: inner }), inner),
    { clock, signal },
  );
  return true;
}

/**
 * The table may be wrong: an alias that was changed by hand makes a living
 * pod look gone. On this node its route keeps others from its address, but
 * another node would know nothing of it.
 */
async function assertUnused(
  { info }: HeldBlock,
  kernel: RouteView | undefined,
): Promise<void> {
  const prefixes = valuesOf(info.prefixes);
  const [used] = await kernel?.routedWithin(prefixes) ?? [];
  if (used === undefined) return;
  throw new Error(
    `Cannot return the block: the kernel has a route to "${used}"`,
  );
}
