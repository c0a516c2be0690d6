import type { BlockRequest } from "../../lib/api/mod.ts";
import {
  abortable,
  type Clock,
  jittered,
  retry,
  TaskGroup,
} from "../../lib/async/mod.ts";
import { runAudits } from "../../lib/ipam/audit/mod.ts";
import {
  Controller,
  type EventRecorder,
  type Informer,
  type KubeClient,
  type KubeMetrics,
} from "../../lib/kube/mod.ts";
import type { HeapKeeper } from "../../lib/linux/mod.ts";
import { getLogger } from "../../lib/telemetry/mod.ts";
import type { CachedPod } from "./base/cached_pod.ts";
import { AddressPoolReconciler } from "./pools/addresspool_reconciler.ts";
import { BlockReports } from "./blocks/block_reports.ts";
import { BlockRequestReconciler } from "./blocks/blockrequest_reconciler.ts";
import { Cluster } from "./ipam/cluster.ts";
import { ClusterRanges } from "./pools/cluster_ranges.ts";
import { GarbageCollector } from "./blocks/garbage_collector.ts";
import { countPools } from "./pools/growth.ts";
import type { IpamMetrics } from "./ipam/metrics.ts";
import { NodeAddressKeeper } from "./blocks/node_addresses.ts";
import { NodeLimit } from "./blocks/node_limit.ts";
import { AuditReports } from "./pools/audit_reports.ts";
import { PoolAudit } from "./pools/pool_audit.ts";
import { PoolUsage } from "./pools/pool_usage.ts";
import { Pools } from "./blocks/pools.ts";
import { type CachedBlock, isSettled } from "./ipam/transform.ts";
import { RequestBlocks } from "./blocks/request_blocks.ts";
import { type IpamBooks, subscribeIpam } from "./blocks/subscriptions.ts";

const log = getLogger("setup");

const CONCURRENT_POOLS = 4;

/** However many pods come and go, what they use is summed up once in about this time. */
const USAGE_INTERVAL_MS = 10_000;

/** A look at 150,000 pods takes some tenths of a second of processor time. */
const AUDIT_INTERVAL_MS = 10 * 60_000;

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
  readonly heap: Pick<HeapKeeper, "note">;
  /** By which addresses are audited; replaced in tests. */
  readonly clock?: Clock | undefined;
}

/** The leader's work, until the signal aborts. */
export type Lead = (leading: AbortSignal) => Promise<void>;

/**
 * Starts the caches of pools, blocks, requests and nodes in the group, and
 * returns what a leader does with them: a standby that becomes the leader
 * lists nothing again.
 */
export function openIpam(options: IpamPartOptions, group: TaskGroup): Lead {
  const { client, heap, pods } = options;
  const cluster = new Cluster(client, { onObject: () => heap.note() });
  const usage = pods && new PoolUsage({ pods, pools: cluster.pools });
  cluster.start(group);
  return (leading) => leadIpam(options, { cluster, usage }, leading);
}

async function leadIpam(
  options: IpamPartOptions,
  { cluster, usage }: Pick<Dependencies, "cluster" | "usage">,
  signal: AbortSignal,
): Promise<void> {
  const { metrics } = options;
  using undo = new DisposableStack();
  await using group = new TaskGroup({ signal });
  await cluster.synced(group.signal);
  const enqueueAll = () => {
    for (const pool of cluster.pools.store.keys()) poolController.enqueue(pool);
  };
  const dependencies = makeDependencies(options, {
    cluster,
    usage,
    onPool: (name) => poolController.enqueue(name),
    onRanges: enqueueAll,
  });
  const { pools, answers, ranges } = dependencies;
  undo.use(metrics.lead(() => pools.counts()));
  const poolController = makePoolController(options, dependencies);
  const requestController = makeRequestController(options, dependencies);
  const gc = makeGarbageCollector(options, dependencies);
  const nodes = makeNodeAddresses(options, cluster);
  using _subscriptions = subscribeIpam(dependencies, {
    ...options,
    poolController,
    requestController,
    gc,
    nodes,
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
  group.run("node addresses", (s) => nodes.controller.run(s));
  group.run("gc", (s) => gc.run(s));
  group.run("gc sweeps", (s) => gc.runSweeps(s));
  group.run("cluster ranges", (s) => ranges.run(s));
  group.run("address audit", (s) => runPoolAudits(options, dependencies, s));
  countPools(group, { pods: options.pods, enqueueAll });
  await group.wait();
}

/** What a leader knows of the cluster, and what of that the controllers work with. */
function makeDependencies(
  { client, metrics, events, ...options }: IpamPartOptions,
  { cluster, usage, onPool, onRanges }:
    & Pick<Dependencies, "cluster" | "usage">
    & {
      /** A pool's neighbours changed. */
      readonly onPool: (name: string) => void;
      /** The cluster's own ranges changed. */
      readonly onRanges: () => void;
    },
): Dependencies {
  const blocks = cluster.blocks.store;
  const nodes = cluster.nodes.store;
  const reports = new BlockReports({ events, metrics, nodes });
  return {
    cluster,
    reports,
    usage,
    pools: new Pools({ client, blocks, onConcerned: onPool }),
    answers: new RequestBlocks(client),
    audits: new AuditReports({ metrics, onChanged: onPool }),
    limit: new NodeLimit({
      client,
      blocks,
      factor: options.nodeAddressFactor,
      maxPods: options.maxPodsPerNode,
      reports,
    }),
    ranges: new ClusterRanges({
      client,
      nodes,
      intervalMs: options.gcIntervalMs,
      onChanged: onRanges,
    }),
  };
}

interface Dependencies extends IpamBooks {
  readonly reports: BlockReports;
  readonly audits: AuditReports;
  readonly ranges: ClusterRanges;
  readonly usage: PoolUsage | undefined;
}

/** Without the pods' addresses there is nothing to compare. */
async function runPoolAudits(
  { client, pods, clock }: IpamPartOptions,
  { cluster, audits }: Pick<Dependencies, "cluster" | "audits">,
  signal: AbortSignal,
): Promise<void> {
  if (pods === undefined) return;
  await abortable(pods.synced, signal);
  const pools = cluster.pools.store;
  const blocks = cluster.blocks.store;
  const audit = new PoolAudit({ client, pods: pods.store, pools, blocks });
  await runAudits({
    look: (s) => audit.look(s),
    onFindings: (findings) => audits.note(findings, pools.keys()),
    intervalMs: AUDIT_INTERVAL_MS,
    clock,
  }, signal);
}

function uidsOf(requests: readonly BlockRequest[]): ReadonlySet<string> {
  return new Set(requests.map(({ metadata }) => metadata.uid ?? ""));
}

function makePoolController(
  { client, events, metrics, kubeMetrics, heap }: IpamPartOptions,
  { audits, cluster, pools, ranges, usage }: Dependencies,
): Controller {
  const reconciler = new AddressPoolReconciler({
    client,
    pools: cluster.pools.store,
    blocks: cluster.blocks.store,
    book: pools,
    ranges,
    usage,
    audits,
    metrics,
    events,
    heap,
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

/** Keeps the annotations of blocks that name their nodes' addresses. */
function makeNodeAddresses(
  { client, kubeMetrics }: IpamPartOptions,
  { blocks, nodes }: Cluster,
) {
  const keeper = new NodeAddressKeeper({
    client,
    blocks: blocks.store,
    nodes: nodes.store,
  });
  const controller = new Controller({
    name: "node-addresses",
    metrics: kubeMetrics,
    reconcile: (node, signal) => keeper.reconcile(node, signal),
  });
  return {
    controller,
    /** A node's addresses changed, or this block of it may lack them. */
    enqueue(node: string, block?: CachedBlock): void {
      if (block !== undefined && !keeper.isStale(block, node)) return;
      controller.enqueue(node);
    },
  };
}

function makeRequestController(
  { client, kubeMetrics, concurrentRequests }: IpamPartOptions,
  { cluster, pools, answers, limit, reports }: Dependencies,
): Controller {
  const reconciler = new BlockRequestReconciler({
    client,
    requests: cluster.requests.store,
    pools: cluster.pools.store,
    nodes: cluster.nodes.store,
    answers,
    allocator: pools,
    limit,
    reports,
  });
  return new Controller({
    name: "blockrequest",
    concurrency: concurrentRequests,
    metrics: kubeMetrics,
    reconcile: (name, signal) => reconciler.reconcile(name, signal),
  });
}

function makeGarbageCollector(
  { client, metrics, kubeMetrics, ...options }: IpamPartOptions,
  { cluster, reports }: Dependencies,
): GarbageCollector {
  return new GarbageCollector({
    client,
    blocks: cluster.blocks.store,
    metrics,
    kubeMetrics,
    intervalMs: options.gcIntervalMs,
    graceMs: options.nodeGraceMs,
    reports,
  });
}
