import { abortable, Backoff, sleep, withTimeout } from "../../async/mod.ts";
import { getLogger } from "../../telemetry/mod.ts";
import { OutOfBlocksError, PoolNotFoundError } from "../base/errors.ts";
import type { BlockInfo, RequestOutcome } from "../base/ports.ts";
import type { HeldBlock } from "../table/held_block.ts";
import type { NodeContext } from "./context.ts";
import { roomOf, wantedOf } from "./stock.ts";

const log = getLogger("node-ipam");

/** What a request for blocks needs. */
export interface BlockRequestOptions extends NodeContext {
  /** Blocks on their way back: a refusal of their pool may be over in a moment. */
  readonly flying: ReadonlySet<HeldBlock>;
  /** Takes blocks into the table. */
  readonly adopt: (blocks: readonly BlockInfo[]) => readonly Adoption[];
  /** Lists blocks live. */
  readonly relist: (signal: AbortSignal) => Promise<unknown>;
  readonly signal: AbortSignal;
}

/**
 * How far a block can be used: `usable` gives room; `stale` gives none, another request may (the answer was old, or the
 * block is being deleted, or it is known and full); `unusable` overlaps another block, and asking on would use up the
 * pool.
 */
export type Adoption = "usable" | "stale" | "unusable";

/** How long a refusal answers further allocations at once. */
const REFUSAL_MS = 1_000;

/**
 * Asks for blocks of a pool until it gets some, is refused, or no allocation waits for them. At most once per pool at a
 * time: all who wait share the request, and none of them can cancel it.
 */
export async function requestBlocks(
  pool: string,
  options: BlockRequestOptions,
): Promise<void> {
  const { supply, clock, signal } = options;
  const backoff = new Backoff({ initialMs: 100, maxMs: 3_000 });
  while (await attempt(pool, options) === "error") {
    if (supply.waiting(pool) === 0) break;
    await sleep(backoff.nextMs(), { clock, signal });
    if (supply.waiting(pool) === 0) break;
  }
}

async function attempt(
  pool: string,
  options: BlockRequestOptions,
): Promise<RequestOutcome> {
  const { clock, observer, signal } = options;
  const startedAt = clock.nowMs();
  let outcome: RequestOutcome;
  try {
    outcome = await accept(pool, await ask(pool, options), options);
  } catch (err) {
    if (signal.aborted) throw err;
    outcome = refuse(pool, err, options);
  }
  const seconds = (clock.nowMs() - startedAt) / 1000;
  observer.blockRequested?.({ pool, outcome, seconds });
  return outcome;
}

/** Asks once. An answer that comes after the time was up is adopted all the same: no block may be lost. */
async function ask(
  pool: string,
  options: BlockRequestOptions,
): Promise<readonly BlockInfo[]> {
  const { source, supply, stock, table, clock, tasks, adopt } = options;
  const wanted = wantedOf(roomOf(table, pool, supply), stock);
  let answer: Promise<readonly BlockInfo[]> | undefined;
  try {
    return await withTimeout(options.blockTimeoutMs, (inner) => {
      answer = source.request(pool, { signal: inner, wanted });
      return abortable(answer, inner);
    }, { clock, signal: options.signal });
  } catch (err) {
    const late = answer;
    if (late !== undefined) {
      tasks.run("late block", async (end) => {
        // Without an answer the request ended without a block.
        adopt(await abortable(late, end).catch(() => []));
      });
    }
    throw err;
  }
}

async function accept(
  pool: string,
  blocks: readonly BlockInfo[],
  { adopt, relist, supply, signal }: BlockRequestOptions,
): Promise<RequestOutcome> {
  let adoptions = adopt(blocks);
  if (!adoptions.includes("usable") && adoptions.includes("unusable")) {
    // The block that one of them overlaps may be gone, unnoticed here.
    await abortable(relist(signal), signal);
    adoptions = adopt(blocks);
  }
  if (adoptions.includes("usable")) {
    supply.granted(pool);
    return "granted";
  }
  const names = blocks.map(({ name }) => name).join(", ");
  const adoption = adoptions.includes("unusable") ? "unusable" : "stale";
  const error = new OutOfBlocksError(
    pool,
    names === ""
      ? "no block was received"
      : `block "${names}" was received, but is ${adoption}`,
  );
  const until = supply.failed(pool, error);
  log.warn("Cannot use the block received", { pool, block: names });
  if (adoption === "stale") return "error";
  supply.refuse(pool, error, until);
  return "unusable";
}

function refuse(
  pool: string,
  err: unknown,
  { clock, flying, supply }: BlockRequestOptions,
): RequestOutcome {
  supply.failed(pool, err);
  const missing = err instanceof PoolNotFoundError;
  const isReturning = [...flying].some(({ info }) => info.pool === pool);
  const isRefusal = missing ||
    (err instanceof OutOfBlocksError && !isReturning);
  if (!isRefusal) {
    log.info("Cannot get a block", { pool, err });
    return "error";
  }
  supply.refuse(pool, err, clock.nowMs() + REFUSAL_MS);
  if (supply.waiting(pool) > 0) {
    log.warn("Failed to get a block", { pool, err });
  } else log.debug("Failed to get a block in advance", { pool, err });
  return missing ? "pool-not-found" : "out-of-blocks";
}
