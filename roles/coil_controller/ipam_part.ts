import {
  ADDRESS_BLOCKS,
  ADDRESS_POOLS,
  type AddressBlock,
  type AddressPool,
  type BlockRequest,
} from "../../lib/api/mod.ts";
import {
  abortable,
  jittered,
  retry,
  sleep,
  TaskGroup,
} from "../../lib/async/mod.ts";
import {
  Controller,
  type EventRecorder,
  type Informer,
  type KubeClient,
  type KubeMetrics,
} from "../../lib/kube/mod.ts";
import { HeapKeeper } from "../../lib/linux/mod.ts";
import { GROUP_VERSION, NODE_LABEL, POOL_LABEL } from "../../lib/names/mod.ts";
import { describeError, getLogger } from "../../lib/telemetry/mod.ts";
import type { CachedPod } from "./common/cached_pod.ts";
import { AddressPoolReconciler } from "./pools/addresspool_reconciler.ts";
import {
  BlockRequestReconciler,
  REASON_NODE_LIMIT,
} from "./blocks/blockrequest_reconciler.ts";
import { Cluster } from "./ipam/cluster.ts";
import { ClusterRanges } from "./pools/cluster_ranges.ts";
import { GarbageCollector } from "./blocks/garbage_collector.ts";
import { Growth, SAMPLE_INTERVAL_MS } from "./pools/growth.ts";
import type { IpamMetrics } from "./ipam/metrics.ts";
import {
  nodeAddressesText,
  NodeAddressKeeper,
} from "./blocks/node_addresses.ts";
import { NodeLimit } from "./blocks/node_limit.ts";
import { poolEvents } from "./pools/pool_events.ts";
import { PoolUsage } from "./pools/pool_usage.ts";
import { Pools } from "./blocks/pools.ts";
import { type CachedBlock, isSettled } from "./ipam/transform.ts";
import { RequestBlocks } from "./blocks/request_blocks.ts";

const log = getLogger("setup");

/**
 * However many blocks of a pool change, its status is written once in this
 * time, and more seldom for a pool with many blocks, which all are counted.
 */
const STATUS_INTERVAL_MS = 300;
const STATUS_INTERVAL_PER_BLOCK_MS = 0.04;
const CONCURRENT_POOLS = 4;

/** However many pods come and go, what they use is summed up once in about this time. */
const USAGE_INTERVAL_MS = 10_000;

export interface IpamPartOptions {
  readonly client: KubeClient;
  readonly events: EventRecorder;
  readonly metrics: IpamMetrics;
  /** Receives what the controllers' own metrics are made of. */
  readonly kubeMetrics: KubeMetrics;
  /** The pods of the cluster, followed by who gives them; without them it is not known what is used. */
  readonly pods?: Informer<CachedPod> | undefined;
  readonly gcIntervalMs: number;
  readonly nodeGraceMs: number;
  readonly concurrentRequests: number;
  /** See {@linkcode NodeLimit}. */
  readonly nodeAddressFactor: number;
  readonly maxPodsPerNode: number;
  /** Replaced in tests. */
  readonly heap?: HeapKeeper;
}

/** The leader's work, until the signal aborts. */
export type Lead = (leading: AbortSignal) => Promise<void>;

/**
 * Starts the caches of pools, blocks, requests and nodes in the group, and
 * returns what a leader does with them: a standby that becomes the leader
 * lists nothing again.
 */
export function openIpam(options: IpamPartOptions, group: TaskGroup): Lead {
  const { client, heap = new HeapKeeper() } = options;
  const cluster = new Cluster(client, { onObject: () => heap.note() });
  const { pods } = options;
  const usage = pods && new PoolUsage({ pods, pools: cluster.pools });
  cluster.start(group);
  group.run("ipam heap keeper", (s) => heap.run(s));
  return (leading) => leadIpam(options, { cluster, usage }, leading);
}

async function leadIpam(
  options: IpamPartOptions,
  { cluster, usage }: Pick<Dependencies, "cluster" | "usage">,
  signal: AbortSignal,
): Promise<void> {
  const { client, metrics } = options;
  using undo = new DisposableStack();
  undo.defer(() => metrics.dropPools());
  await using group = new TaskGroup({ signal });
  await cluster.synced(group.signal);
  const pools = new Pools({
    client,
    blocks: cluster.blocks.store,
    metrics,
    onConcerned: (name) => poolController.enqueue(name),
  });
  const enqueueAll = () => {
    for (const pool of cluster.pools.store.keys()) poolController.enqueue(pool);
  };
  const answers = new RequestBlocks(client);
  const limit = new NodeLimit({
    client,
    blocks: cluster.blocks.store,
    factor: options.nodeAddressFactor,
    maxPods: options.maxPodsPerNode,
    onDisbelief({ node, message }) {
      log.warn("A Node allows more pods than --max-pods-per-node", {
        node,
        detail: message,
      });
      nodeEvent(options, cluster, {
        node,
        reason: "PodCountTooLarge",
        message,
      });
    },
  });
  const ranges = new ClusterRanges({
    client,
    nodes: cluster.nodes.store,
    intervalMs: options.gcIntervalMs,
    onChanged: () => enqueueAll(),
  });
  const parts: Dependencies = {
    cluster,
    pools,
    answers,
    limit,
    ranges,
    usage,
  };
  const poolController = makePoolController(options, parts);
  const requestController = makeRequestController(options, parts);
  const gc = makeGarbageCollector(options, cluster);
  const addresses = new NodeAddressKeeper({
    client,
    blocks: cluster.blocks.store,
    nodes: cluster.nodes.store,
  });
  const addressController = new Controller({
    name: "node-addresses",
    metrics: options.kubeMetrics,
    reconcile: (node, s) => addresses.reconcile(node, s),
  });
  using _subscriptions = subscribe(parts, {
    onPool: (name, afterMs) => poolController.enqueue(name, { afterMs }),
    onOpenRequest(request) {
      metrics.requestSeen(request.metadata.uid ?? "");
      requestController.enqueue(request.metadata.name ?? "");
    },
    onClosedRequest: ({ metadata }) => metrics.requestGone(metadata.uid ?? ""),
    onMissingNode: (name) => gc.check(name),
    onNodeAddresses: (name, block) => {
      if (block === undefined || addresses.isStale(block, name)) {
        addressController.enqueue(name);
      }
    },
    onNode: (name, isThere) => isThere ? gc.nodeThere(name) : gc.nodeGone(name),
  });
  using _usage = usage?.subscribe((pool) =>
    poolController.enqueue(pool, { afterMs: jittered(USAGE_INTERVAL_MS) })
  );
  pools.open(cluster.pools.store.list());
  const pending = cluster.requests.store.list().filter((r) => !isSettled(r));
  await retry(() => answers.learn(uidsOf(pending), group), group);
  log.info("Serving block requests", {
    pending: pending.length,
    pools: cluster.pools.store.size,
    blocks: cluster.blocks.store.size,
    nodes: cluster.nodes.store.size,
  });
  group.run("pools", (s) => poolController.run(s));
  group.run("requests", (s) => requestController.run(s));
  group.run("node addresses", (s) => addressController.run(s));
  group.run("gc", (s) => gc.run(s));
  group.run("gc sweeps", (s) => gc.runSweeps(s));
  group.run("cluster ranges", (s) => ranges.run(s));
  countPools(group, { pods: options.pods, enqueueAll });
  await group.wait();
}

/** Has all pools counted when the pods are known, and now and then: how fast one grows follows from the time, too. */
function countPools(
  group: TaskGroup,
  { pods, enqueueAll }: Pick<IpamPartOptions, "pods"> & {
    readonly enqueueAll: () => void;
  },
): void {
  group.run("first usage", async (signal) => {
    await abortable(pods?.synced ?? Promise.resolve(), signal);
    enqueueAll();
  });
  group.run("pool growth", async (signal) => {
    for (;;) {
      await sleep(jittered(SAMPLE_INTERVAL_MS), { signal });
      enqueueAll();
    }
  });
}

interface Dependencies {
  readonly cluster: Cluster;
  readonly pools: Pools;
  readonly answers: RequestBlocks;
  readonly limit: NodeLimit;
  readonly ranges: ClusterRanges;
  readonly usage: PoolUsage | undefined;
}

/** What watch events lead to; keys only, except where only the deleted object has the facts. */
interface Handlers {
  readonly onPool: (name: string, afterMs: number) => void;
  /** A request waits for its answer. */
  readonly onOpenRequest: (request: BlockRequest) => void;
  /** A request has its answer, or is gone. */
  readonly onClosedRequest: (request: BlockRequest) => void;
  /** A node's addresses changed, or a block may lack them. */
  readonly onNodeAddresses: (node: string, block?: CachedBlock) => void;
  /** There may be no such node. */
  readonly onMissingNode: (name: string) => void;
  /** A node came or went. */
  readonly onNode: (name: string, isThere: boolean) => void;
}

function subscribe(
  { cluster, pools, answers, limit }: Dependencies,
  handlers: Handlers,
): Disposable {
  const stack = new DisposableStack();
  // What is there already counts as new: this leader has seen nothing of it.
  const all = { replay: true };
  stack.use(cluster.pools.subscribe(({ key }) => handlers.onPool(key, 0), all));
  stack.use(cluster.blocks.subscribe(({ type, object }) => {
    const { pool, node } = holderOf(object);
    limit.settled(object.metadata.name ?? "");
    if (type === "deleted") pools.freed(object);
    else pools.seen(object);
    if (type !== "deleted") {
      if (isMissing(node, cluster)) handlers.onMissingNode(node);
      else handlers.onNodeAddresses(node, object);
    }
    if (pool === "") return;
    for (const name of [pool, ...pools.neighbours(pool)]) {
      const delayMs = statusDelayMs(cluster.pools.store.get(name), {
        blocks: cluster.blocks.store.size,
      });
      handlers.onPool(name, delayMs);
    }
  }, all));
  stack.use(cluster.requests.subscribe(({ type, object }) => {
    const uid = object.metadata.uid ?? "";
    if (type === "deleted" || isSettled(object)) {
      answers.forget(uid);
      handlers.onClosedRequest(object);
      return;
    }
    if (type === "updated") answers.doubt(uid);
    handlers.onOpenRequest(object);
  }, all));
  stack.use(cluster.nodes.subscribe(({ type, key, object, before }) => {
    if (type !== "updated") handlers.onNode(key, type === "added");
    if (nodeAddressesText(object) !== nodeAddressesText(before)) {
      handlers.onNodeAddresses(key);
    }
  }, all));
  return stack;
}

function holderOf({ metadata }: AddressBlock): { pool: string; node: string } {
  const { [POOL_LABEL]: pool = "", [NODE_LABEL]: node = "" } =
    metadata.labels ?? {};
  return { pool, node };
}

/** A node may come and go while a watch is cut: then only its blocks show that it is gone. */
function isMissing(node: string, { nodes }: Cluster): boolean {
  return node !== "" && nodes.hasSynced && nodes.store.get(node) === undefined;
}

/** How long the status of a pool waits for more changes; that of one which is being deleted, with whose last block it goes, does not. */
export function statusDelayMs(
  pool: Pick<AddressPool, "metadata"> | undefined,
  { blocks }: { readonly blocks: number },
): number {
  if (pool?.metadata.deletionTimestamp !== undefined) return 0;
  return STATUS_INTERVAL_MS + blocks * STATUS_INTERVAL_PER_BLOCK_MS;
}

function uidsOf(requests: readonly BlockRequest[]): ReadonlySet<string> {
  return new Set(requests.map(({ metadata }) => metadata.uid ?? ""));
}

function makePoolController(
  { client, events, metrics, kubeMetrics }: IpamPartOptions,
  { cluster, pools, ranges, usage }: Dependencies,
): Controller {
  const growth = new Growth();
  const reconciler = new AddressPoolReconciler({
    client,
    pools: cluster.pools.store,
    blocks: cluster.blocks.store,
    book: pools,
    clusterOverlap: (pool) => ranges.overlap(pool),
    used: (pool) => usage?.of(pool),
    forecast(pool, blocks) {
      const forecast = growth.note(pool, blocks);
      metrics.poolForecast(pool, forecast);
      return forecast;
    },
    onDropped: (pool) => growth.drop(pool),
    onCounted: (pool, status) => metrics.poolCounted(pool, status),
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
    async reconcile(name, signal) {
      // Their statuses say what the former leader knew of the cluster.
      await ranges.known({ signal });
      return await reconciler.reconcile(name, signal);
    },
  });
}

function makeRequestController(
  { client, events, metrics, kubeMetrics, concurrentRequests }: IpamPartOptions,
  { cluster, pools, answers, limit }: Dependencies,
): Controller {
  const reconciler = new BlockRequestReconciler({
    client,
    requests: cluster.requests.store,
    pools: cluster.pools.store,
    nodes: cluster.nodes.store,
    answers,
    allocator: pools,
    limit,
    onAnswered(request: BlockRequest, answer) {
      const { poolName, nodeName } = request.spec;
      metrics.requests.inc({ pool: poolName, result: answer.result });
      metrics.requestAnswered(request.metadata.uid ?? "");
      const fields = { pool: poolName, node: nodeName };
      if (answer.result === "allocated") {
        requestLog.info("Allocated block", { ...fields, block: answer.block });
      } else {
        requestLog.warn("Refused block", {
          ...fields,
          reason: answer.reason,
          detail: answer.message,
        });
        if (answer.reason !== REASON_NODE_LIMIT) return;
        nodeEvent({ events }, cluster, {
          node: nodeName,
          reason: "BlockLimitReached",
          message: answer.message,
        });
      }
    },
  });
  return new Controller({
    name: "blockrequest",
    concurrency: concurrentRequests,
    metrics: kubeMetrics,
    reconcile: (name, signal) => reconciler.reconcile(name, signal),
  });
}

/** Records an Event about a Node, which may be gone. */
function nodeEvent(
  { events }: Pick<IpamPartOptions, "events">,
  { nodes }: Cluster,
  { node: name, type = "Warning", reason, message }: {
    readonly node: string;
    readonly type?: "Normal" | "Warning";
    readonly reason: string;
    readonly message: string;
  },
): void {
  const uid = nodes.store.get(name)?.metadata?.uid ?? "";
  events.event({ apiVersion: "v1", kind: "Node", name, uid }, {
    type,
    reason,
    message,
  });
}

const requestLog = getLogger("blockrequest-reconciler");

function makeGarbageCollector(
  { client, events, metrics, kubeMetrics, ...options }: IpamPartOptions,
  cluster: Cluster,
): GarbageCollector {
  return new GarbageCollector({
    client,
    blocks: cluster.blocks.store,
    metrics,
    kubeMetrics,
    intervalMs: options.gcIntervalMs,
    graceMs: options.nodeGraceMs,
    onReleased(node, message) {
      const reason = "BlocksReleased";
      nodeEvent({ events }, cluster, { node, type: "Normal", reason, message });
    },
    onFailure({ metadata }: AddressBlock, error) {
      events.event({
        apiVersion: GROUP_VERSION,
        kind: ADDRESS_BLOCKS.kind,
        name: metadata.name ?? "",
        uid: metadata.uid ?? "",
      }, {
        type: "Warning",
        reason: "ReleaseFailed",
        message: `Cannot release the block of a deleted node: ${
          describeError(error)
        }`,
      });
    },
  });
}
