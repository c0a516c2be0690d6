import { Backoff, retry, sleep } from "../../../lib/async/mod.ts";
import { type KubeClient, PODS } from "../../../lib/kube/mod.ts";
import { getLogger } from "../../../lib/telemetry/mod.ts";
import type { GatewayIdentity } from "../base/identity.ts";

const log = getLogger("drain");

/** Until the last proxy has learnt that the pod ends, new flows may still come. */
const LEAST_MS = 5_000;
const LOOK_MS = 2_000;
const REPORT_MS = 10_000;

export interface OwnPodQuery {
  readonly client: Pick<KubeClient, "tryGet">;
  readonly identity: Pick<GatewayIdentity, "namespace" | "pod">;
  readonly signal: AbortSignal;
}

/**
 * Whether the pod that this runs in is being deleted, or is gone already; else
 * it is only its container that ends, and another one follows. Asks until it
 * has an answer.
 */
export async function isOwnPodDeleted(query: OwnPodQuery): Promise<boolean> {
  const { client, identity, signal } = query;
  const { namespace, pod: name } = identity;
  return await retry(async (attempt) => {
    try {
      const pod = await client.tryGet(PODS, { namespace, name, signal });
      return pod === undefined || pod.metadata?.deletionTimestamp !== undefined;
    } catch (err) {
      if (attempt === 1) {
        log.warn("Cannot check whether this pod is being deleted", { err });
      }
      throw err;
    }
  }, { signal, backoff: new Backoff({ initialMs: 500, maxMs: 5_000 }) });
}

export interface DrainOptions {
  /** Established flows of clients at this moment; undefined when that cannot be read. */
  readonly countFlows: () => Promise<number | undefined>;
  /** How long to go on at most. */
  readonly timeoutMs: number;
  /** Ends it early. */
  readonly signal: AbortSignal;
  /** How long to go on at least, for flows that are on their way. Default 5 s. */
  readonly leastMs?: number | undefined;
  /** How often to look. Default 2 s. */
  readonly lookMs?: number;
}

/** Waits until no established flow of a client remains, or the time is over. */
export async function drain(options: DrainOptions): Promise<void> {
  const { countFlows, timeoutMs, signal } = options;
  const { leastMs = LEAST_MS, lookMs = LOOK_MS } = options;
  const startMs = performance.now();
  const ageMs = () => performance.now() - startMs;
  let reportedMs = -Infinity;
  let flows: number | undefined;
  log.info("Draining: still serving established flows", { timeoutMs });
  for (;;) {
    flows = await countFlows() ?? flows;
    if (ageMs() - reportedMs >= REPORT_MS) {
      reportedMs = ageMs();
      log.info("Flows remain", { flows });
    }
    const isOver = ageMs() >= timeoutMs;
    if (isOver || (flows === 0 && ageMs() >= leastMs)) break;
    const leftMs = Math.max(0, timeoutMs - ageMs());
    await sleep(Math.min(lookMs, leftMs), { signal });
  }
  if (flows === 0) log.info("Drained", {});
  else log.warn("Stopping although flows may remain", { flows, timeoutMs });
}
