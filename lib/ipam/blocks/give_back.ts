import { abortable, Backoff, withTimeout } from "../../async/mod.ts";
import { valuesOf } from "../../inet/mod.ts";
import { getLogger } from "../../telemetry/mod.ts";
import type { GiveBack, HeldBlock } from "../table/held_block.ts";
import type { NodeContext } from "./context.ts";
import type { RouteExport } from "./route_export.ts";

const log = getLogger("node-ipam");

/** What a return of a block needs. */
export interface GiveBackOptions extends NodeContext {
  readonly exported: RouteExport;
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
}

/**
 * Tries to give back blocks of one group that are no longer allocated from. Returns those that are gone.
 *
 * The order is what makes it safe: their routes are withdrawn, then the kernel is asked whether they are unused indeed,
 * then the source. A failure never reaches a DEL, unlike upstream, where DEL fails with it (and W1 follows). After a
 * failure a block stays `returning`: the request may have been carried out, or may still be, so nothing is given
 * out of it until it is gone and granted again.
 */
export async function giveBack(
  blocks: readonly HeldBlock[],
  options: GiveBackOptions,
): Promise<readonly HeldBlock[]> {
  const { source, exported, clock, observer, timeoutMs, signal } = options;
  let going = blocks;
  try {
    if (!await abortable(exported.flush(), signal)) {
      // Another node could announce the block while this one still does.
      throw new Error("Cannot withdraw the route: the export table is stuck");
    }
    going = await abortable(unused(going, options), signal);
    going = going.filter(({ isEmpty }) => isEmpty);
    if (going.length === 0) return [];
    for (const block of going) attemptsOf(block, options).asked = true;
    const infos = going.map(({ info }) => info);
    await withTimeout(
      timeoutMs,
      (inner) => abortable(source.release(infos, { signal: inner }), inner),
      { clock, signal },
    );
  } catch (err) {
    if (signal.aborted) throw err;
    for (const block of going) retryLater(block, err, options);
    return [];
  }
  for (const { info: { pool, name } } of going) {
    log.info("Returned a block", { pool, block: name });
    observer.blockReturned?.({ pool, block: name, ok: true });
  }
  return going;
}

function attemptsOf(
  block: HeldBlock,
  { clock }: Pick<GiveBackOptions, "clock">,
): GiveBack {
  return block.giveBack ??= {
    backoff: new Backoff({ initialMs: 1_000, maxMs: 60_000 }),
    retryAt: clock.nowMs(),
    asked: false,
  };
}

function retryLater(
  block: HeldBlock,
  err: unknown,
  options: GiveBackOptions,
): void {
  const { pool, name } = block.info;
  const attempts = attemptsOf(block, options);
  attempts.retryAt = options.clock.nowMs() + attempts.backoff.nextMs();
  options.observer.blockReturned?.({ pool, block: name, ok: false });
  const fields = { pool, block: name, err };
  log.warn("Cannot return a block; retrying", fields);
}

/**
 * Those of which the kernel routes no address. The table may be wrong: an alias that was changed by hand makes a living
 * pod look gone. On this node its route keeps others from its address, but another node would know nothing of it.
 */
async function unused(
  blocks: readonly HeldBlock[],
  options: GiveBackOptions,
): Promise<readonly HeldBlock[]> {
  const prefixesOf = ({ info }: HeldBlock) => valuesOf(info.prefixes);
  const prefixes = blocks.flatMap(prefixesOf);
  const routed = await options.kernel?.routedWithin(prefixes) ?? [];
  return blocks.filter((block) => {
    const used = routed.find((each) =>
      prefixesOf(block).some((prefix) => prefix.contains(each))
    );
    if (used === undefined) return true;
    const problem =
      `Cannot return the block: the kernel has a route to "${used}"`;
    retryLater(block, new Error(problem), options);
    return false;
  });
}
