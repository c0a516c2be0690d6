import {
  ADDRESS_BLOCKS,
  ADDRESS_POOLS,
  type AddressBlock,
  type BlockRequest,
} from "../../lib/api/mod.ts";
import { retry, TaskGroup } from "../../lib/async/mod.ts";
import {
  Controller,
  type EventRecorder,
  type KubeClient,
  type KubeMetrics,
} from "../../lib/kube/mod.ts";
import { GROUP_VERSION, NODE_LABEL, POOL_LABEL } from "../../lib/names/mod.ts";
import { describeError, getLogger } from "../../lib/telemetry/mod.ts";
import { AddressPoolReconciler } from "./addresspool_reconciler.ts";
import {
  BlockRequestReconciler,
  isSettled,
} from "./blockrequest_reconciler.ts";
import { Cluster } from "./cluster.ts";
import { GarbageCollector } from "./garbage_collector.ts";
import type { IpamMetrics } from "./metrics.ts";
import { poolEvents } from "./pool_events.ts";
import { Pools } from "./pools.ts";
import { RequestBlocks } from "./request_blocks.ts";

const log = getLogger("setup");

/** However many blocks of a pool change, its status is written once in this time. */
const STATUS_INTERVAL_MS = 300;
const CONCURRENT_POOLS = 4;

/** What {@linkcode runIpam} works with. */
export interface IpamPartOptions {
  readonly client: KubeClient;
  readonly events: EventRecorder;
  readonly metrics: IpamMetrics;
  /** Receives what the controllers' own metrics are made of. */
  readonly kubeMetrics: KubeMetrics;
  readonly gcIntervalMs: number;
  readonly concurrentRequests: number;
}

/**
 * Manages pools, blocks and requests until the signal aborts: the leader's
 * work. Everything is listed anew here, after the lease was taken, so that
 * nothing a former leader did is missed.
 */
export async function runIpam(
  options: IpamPartOptions,
  signal: AbortSignal,
): Promise<void> {
  await using group = new TaskGroup({ signal });
  const { client, metrics } = options;
  const cluster = new Cluster(client);
  const pools = new Pools({ client, blocks: cluster.blocks.store, metrics });
  const poolController = makePoolController(options, { cluster, pools });
  const answers = new RequestBlocks();
  const requests = makeRequestReconciler(options, { cluster, pools, answers });
  const requestController = new Controller({
    name: "blockrequest",
    concurrency: options.concurrentRequests,
    metrics: options.kubeMetrics,
    reconcile: (name, s) => requests.reconcile(name, s),
  });
  const gc = makeGarbageCollector(options, cluster);
  using stack = new DisposableStack();
  stack.use(answers.follow(cluster.blocks));
  stack.use(cluster.pools.subscribe(({ key }) => poolController.enqueue(key)));
  stack.use(cluster.blocks.subscribe(({ type, object }) => {
    if (type !== "deleted") noticeOrphan(object, cluster, gc);
    const pool = object.metadata.labels?.[POOL_LABEL];
    if (pool === undefined) return;
    if (type === "deleted") pools.freed(pool, object.index);
    const leaving = cluster.pools.store.get(pool)?.metadata.deletionTimestamp;
    const afterMs = leaving === undefined ? STATUS_INTERVAL_MS : 0;
    poolController.enqueue(pool, { afterMs });
  }));
  stack.use(cluster.requests.subscribe(({ type, object, key }) => {
    if (type !== "deleted" && !isSettled(object)) {
      requestController.enqueue(key);
    }
  }));
  stack.use(cluster.nodes.subscribe(({ type, key }) => {
    if (type === "deleted") gc.check(key);
  }));
  cluster.start(group);
  await cluster.synced(group.signal);
  for (const pool of cluster.pools.store.list()) pools.adopt(pool);
  const pending = cluster.requests.store.list().filter((r) => !isSettled(r));
  await retry(() => answers.learn(client, uidsOf(pending), group), group);
  log.info("Serving block requests", {
    pending: pending.length,
    pools: cluster.pools.store.size,
    blocks: cluster.blocks.store.size,
    nodes: cluster.nodes.store.size,
  });
  group.run("pools", (s) => poolController.run(s));
  group.run("requests", (s) => requestController.run(s));
  group.run("gc", (s) => gc.run(s));
  group.run("gc sweeps", (s) => gc.runSweeps(s));
  await group.wait();
}

/** A node may come and go while a watch is cut, so that nothing ever tells of its end but its blocks. */
function noticeOrphan(
  { metadata }: AddressBlock,
  { nodes }: Cluster,
  gc: GarbageCollector,
): void {
  const node = metadata.labels?.[NODE_LABEL] ?? "";
  if (node !== "" && nodes.hasSynced && nodes.store.get(node) === undefined) {
    gc.check(node);
  }
}

function uidsOf(requests: readonly BlockRequest[]): ReadonlySet<string> {
  return new Set(requests.map(({ metadata }) => metadata.uid ?? ""));
}

interface Parts {
  readonly cluster: Cluster;
  readonly pools: Pools;
}

function makePoolController(
  { client, events, kubeMetrics }: IpamPartOptions,
  { cluster, pools }: Parts,
): Controller {
  const reconciler = new AddressPoolReconciler({
    client,
    pools: cluster.pools.store,
    blocks: cluster.blocks.store,
    book: pools,
    onStatus(pool, status) {
      for (const event of poolEvents(pool, status)) {
        events.event({
          apiVersion: GROUP_VERSION,
          kind: ADDRESS_POOLS.kind,
          name: pool.metadata.name ?? "",
          uid: pool.metadata.uid ?? "",
        }, event);
      }
    },
  });
  return new Controller({
    name: "addresspool",
    concurrency: CONCURRENT_POOLS,
    metrics: kubeMetrics,
    reconcile: (name, signal) => reconciler.reconcile(name, signal),
  });
}

function makeRequestReconciler(
  { client, metrics }: IpamPartOptions,
  { cluster, pools, answers }: Parts & { readonly answers: RequestBlocks },
): BlockRequestReconciler {
  return new BlockRequestReconciler({
    client,
    requests: cluster.requests.store,
    pools: cluster.pools.store,
    nodes: cluster.nodes.store,
    answers,
    carver: pools,
    onAnswered(request: BlockRequest, answer) {
      const { poolName, nodeName } = request.spec;
      metrics.requests.inc({ pool: poolName, result: answer.result });
      const fields = { pool: poolName, node: nodeName };
      if (answer.result === "allocated") {
        requestLog.info("Allocated block", { ...fields, block: answer.block });
      } else {
        requestLog.warn("Refused block", {
          ...fields,
          reason: answer.reason,
          detail: answer.message,
        });
      }
    },
  });
}

const requestLog = getLogger("blockrequest-reconciler");

function makeGarbageCollector(
  { client, events, metrics, kubeMetrics, gcIntervalMs }: IpamPartOptions,
  cluster: Cluster,
): GarbageCollector {
  return new GarbageCollector({
    client,
    blocks: cluster.blocks.store,
    metrics,
    kubeMetrics,
    intervalMs: gcIntervalMs,
    onFailure({ metadata }: AddressBlock, error) {
      events.event({
        apiVersion: GROUP_VERSION,
        kind: ADDRESS_BLOCKS.kind,
        name: metadata.name ?? "",
        uid: metadata.uid ?? "",
      }, {
        type: "Warning",
        reason: "ReleaseFailed",
        message: `Cannot release the block of a node that is gone: ${
          describeError(error)
        }`,
      });
    },
  });
}
