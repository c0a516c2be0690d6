import {
  BLOCK_REQUESTS,
  type BlockRequest,
  blockRequestResult,
} from "../../../lib/api/mod.ts";
import {
  Backoff,
  isTimeout,
  sleep,
  withTimeout,
} from "../../../lib/async/mod.ts";
import type { KubeClient } from "../../../lib/kube/mod.ts";
import { getLogger } from "../../../lib/telemetry/mod.ts";

const log = getLogger("node-ipam");

/**
 * A request that an ADD waits for is read, and watched again, after such times
 * although its watch says nothing: that may be slow, or refused.
 */
const RECHECK = { initialMs: 2_000, maxMs: 16_000 };

interface AnswerOptions {
  readonly client: KubeClient;
  readonly signal: AbortSignal;
}

/** Waits until a request has its answer; undefined when it was deleted. */
export async function answerOf(
  request: BlockRequest,
  { client, signal }: AnswerOptions,
): Promise<BlockRequest | undefined> {
  const { name = "" } = request.metadata;
  const recheck = new Backoff(RECHECK);
  let current = request;
  while (!isAnswered(current)) {
    const waitMs = recheck.nextMs();
    const startMs = performance.now();
    const next = await withTimeout(
      waitMs,
      (limited) => changeOf(current, { client, signal: limited }),
      { signal },
    ).catch((err) => {
      signal.throwIfAborted();
      if (!isTimeout(err)) log.debug("Cannot watch a request", { err });
    });
    if (next === "deleted") return undefined;
    if (next !== undefined) {
      current = next;
      continue;
    }
    // A watch that ended at once is not opened again without a pause.
    const leftMs = waitMs - (performance.now() - startMs);
    await sleep(Math.max(0, leftMs), { signal });
    const live = await client.tryGet(BLOCK_REQUESTS, { name, signal });
    if (live === undefined || uidOf(live) !== uidOf(request)) {
      return undefined;
    }
    current = live;
  }
  return current;
}

/** The request after its next change; undefined when the watch ends without one. */
async function changeOf(
  { metadata: { name = "", uid, resourceVersion } }: BlockRequest,
  { client, signal }: AnswerOptions,
): Promise<BlockRequest | "deleted" | undefined> {
  const events = client.watch(BLOCK_REQUESTS, {
    fieldSelector: `metadata.name=${name}`,
    resourceVersion,
    signal,
  });
  for await (const { type, object } of events) {
    if (type === "BOOKMARK") continue;
    if (type === "DELETED" || object.metadata.uid !== uid) return "deleted";
    return object;
  }
  return undefined;
}

export function uidOf(request: BlockRequest): string {
  return request.metadata.uid ?? "";
}

export function isAnswered(request: BlockRequest): boolean {
  return blockRequestResult(request).state !== "pending";
}
