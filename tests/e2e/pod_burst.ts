// Many pods on one node, and what their start takes: time, processors, requests.
import { Informer, PODS, type V1Pod } from "../../lib/kube/mod.ts";
import { eventually, sleep } from "../lab/mod.ts";
import type { Installation } from "./installation.ts";
import { isReady, runningOf, type RunningPod } from "./pods.ts";
import {
  describeTime,
  readProcessorTime,
  timeBetween,
  type Usage,
} from "./processor_time.ts";
import { coilRequests } from "./requests.ts";

/** The next pod is Ready within this. */
const NEXT_READY_MS = 300_000;
/** All are Ready within this: less than the test's file has. */
const ALL_READY_MS = 900_000;

/** Pods that were started at a time, and what that took. */
export interface Burst {
  readonly pods: readonly RunningPod[];
  /** From the creation of each to its being Ready, in milliseconds. */
  readonly latencies: readonly number[];
  /** What all programs used of the processors until all were Ready. */
  readonly time: ReadonlyMap<string, Usage>;
  /** Requests of Coil's to the API server in the meantime, without the leases that it renews by the clock. */
  readonly requests: number;
  /** What containerd took for a pod's sandbox, its network included, on average and by kubelet's clock. */
  readonly sandboxMs: number;
}

/** How many pods come, and how fast. */
export interface Arrival {
  readonly count: number;
  /** Milliseconds between two; at once without it. */
  readonly everyMs?: number;
}

/** Creates so many pods on node1 and waits until all are Ready. */
export async function startBurst(
  site: Installation,
  { count, everyMs = 0 }: Arrival,
): Promise<Burst> {
  const labels = { burst: "yes" };
  const created = new Map<string, number>();
  const latencies = new Map<string, number>();
  const onPod = (pod: V1Pod) => {
    const name = pod.metadata?.name ?? "";
    const start = created.get(name);
    if (start === undefined || latencies.has(name) || !isReady(pod)) return;
    latencies.set(name, performance.now() - start);
  };
  const stop = new AbortController();
  const informer = new Informer(site.client, PODS, {
    namespace: "default",
    labelSelector: "burst=yes",
    onChange: ({ type, object }) => {
      if (type !== "deleted") onPod(object);
    },
  });
  const running = informer.run(stop.signal);
  await informer.synced;
  const since = new Date();
  const sandboxes = await sandboxTime(site);
  const before = await readProcessorTime(site.plane.name);
  const first = performance.now();
  for (let i = 0; i < count; i++) {
    const name = `burst-${i}`;
    const laterMs = first + i * everyMs - performance.now();
    if (laterMs > 0) await sleep(laterMs);
    created.set(name, performance.now());
    await site.pods.create({ name, node: "node1", labels });
  }
  try {
    for (let ready = 0; ready < count; ready = latencies.size) {
      const leftMs = first + ALL_READY_MS - performance.now();
      await eventually(
        `more than ${ready} of ${count} pods to be Ready`,
        () => latencies.size > ready,
        { timeoutMs: Math.min(NEXT_READY_MS, Math.round(leftMs)) },
      );
    }
  } finally {
    stop.abort();
    await running.catch(() => {});
  }
  const time = timeBetween(before, await readProcessorTime(site.plane.name));
  const pods = await site.pods.list({ labelSelector: "burst=yes" });
  const asked = await coilRequests(site, { since });
  const requests = asked.filter(({ resource }) => resource !== "leases").length;
  const now = await sandboxTime(site);
  const sandboxMs = 1000 * (now.seconds - sandboxes.seconds) /
    (now.count - sandboxes.count);
  return {
    pods: pods.map(runningOf),
    time,
    requests,
    sandboxMs,
    latencies: [...latencies.values()],
  };
}

/** What node1's kubelet counts of its calls for sandboxes. */
async function sandboxTime(
  site: Installation,
): Promise<{ seconds: number; count: number }> {
  const path = "/api/v1/nodes/node1/proxy/metrics";
  const text = String(await site.plane.request("GET", path));
  const sample = (what: string) => {
    const name =
      `kubelet_runtime_operations_duration_seconds_${what}{operation_type="run_podsandbox"} `;
    const line = text.split("\n").find((each) => each.startsWith(name));
    return Number(line?.slice(name.length) ?? 0);
  };
  return { seconds: sample("sum"), count: sample("count") };
}

function percentile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.ceil(share * sorted.length) - 1] ?? NaN;
}

/** Half of the pods, and nearly all, were faster. */
export function describeLatencies(latencies: readonly number[]): string {
  const [p50, p99] = [0.5, 0.99].map((share) =>
    (percentile(latencies, share) / 1000).toFixed(2)
  );
  return `Ready after p50 ${p50} s, p99 ${p99} s`;
}

/** All figures of a burst, in a line. */
export function describeBurst(what: string, burst: Burst): string {
  const { latencies, time, requests, sandboxMs } = burst;
  const ms = describeTime(time, latencies.length);
  return `${what}: ${describeLatencies(latencies)}; a sandbox ${
    Math.round(sandboxMs)
  } ms; ${requests} requests of Coil's; processor's ms per pod: ${ms}`;
}

/** What came, in words. */
export function wordsOf({ count, everyMs }: Arrival): string {
  return everyMs === undefined
    ? `${count} pods at once`
    : `${count} pods, one each ${everyMs} ms`;
}
