import type { AddressBlock, AddressPool } from "../../../lib/api/mod.ts";
import type { Controller } from "../../../lib/kube/mod.ts";
import type { HeapKeeper } from "../../../lib/linux/mod.ts";
import { NODE_LABEL, POOL_LABEL } from "../../../lib/names/mod.ts";
import type { Cluster } from "../ipam/cluster.ts";
import type { IpamMetrics } from "../ipam/metrics.ts";
import { type CachedBlock, isSettled } from "../ipam/transform.ts";
import type { GarbageCollector } from "./garbage_collector.ts";
import { nodeAddressesText } from "./node_addresses.ts";
import type { NodeLimit } from "./node_limit.ts";
import type { Pools } from "./pools.ts";
import type { RequestBlocks } from "./request_blocks.ts";

/**
 * However many blocks of a pool change, its status is written once in this
 * time, and more seldom for a pool with many blocks, which all are counted.
 */
const STATUS_INTERVAL_MS = 300;
const STATUS_INTERVAL_PER_BLOCK_MS = 0.04;

/** Who works on keys, and what counts watch events. */
export interface IpamWork {
  readonly poolController: Pick<Controller, "enqueue">;
  readonly requestController: Pick<Controller, "enqueue">;
  readonly gc: Pick<GarbageCollector, "check" | "nodeThere" | "nodeGone">;
  /** Keeps a node's addresses in its blocks; one that is given may lack them. */
  readonly nodes: { enqueue(node: string, block?: CachedBlock): void };
  readonly metrics: Pick<
    IpamMetrics,
    "requestSeen" | "requestAnswered" | "requestGone"
  >;
  /** Counts blocks: a new leader looks at all at once. */
  readonly heap: Pick<HeapKeeper, "note">;
}

/** Indexes that watch events update before they lead to keys. */
export interface IpamBooks {
  readonly cluster: Cluster;
  readonly pools: Pools;
  readonly answers: RequestBlocks;
  readonly limit: NodeLimit;
}

/** Turns watch events into keys, until the result is disposed of. */
export function subscribeIpam(
  { cluster, pools, answers, limit }: IpamBooks,
  { poolController, requestController, gc, nodes, metrics, heap }: IpamWork,
): Disposable {
  const stack = new DisposableStack();
  // What is there already counts as new: this leader has seen nothing of it.
  const all = { replay: true };
  stack.use(
    cluster.pools.subscribe(({ key }) => poolController.enqueue(key), all),
  );
  stack.use(cluster.blocks.subscribe(({ type, object }) => {
    heap.note();
    const { pool, node } = holderOf(object);
    limit.settled(object.metadata.name ?? "", { node });
    if (type === "deleted") pools.freed(object);
    else pools.seen(object);
    if (type !== "deleted") {
      if (isMissing(node, cluster)) gc.check(node);
      else nodes.enqueue(node, object);
    }
    if (pool === "") return;
    for (const name of [pool, ...pools.neighbours(pool)]) {
      const afterMs = statusDelayMs(cluster.pools.store.get(name), {
        blocks: cluster.blocks.store.size,
      });
      poolController.enqueue(name, { afterMs });
    }
  }, all));
  stack.use(cluster.requests.subscribe(({ type, object }) => {
    const { uid = "", name = "" } = object.metadata;
    const isAnswered = isSettled(object);
    if (type === "deleted" || isAnswered) {
      answers.forget(uid);
      // The watch may show the answer before its write has returned.
      if (isAnswered) metrics.requestAnswered(uid);
      else metrics.requestGone(uid);
      return;
    }
    if (type === "updated") answers.doubt(uid);
    metrics.requestSeen(uid);
    requestController.enqueue(name);
  }, all));
  stack.use(cluster.nodes.subscribe(({ type, key, object, before }) => {
    if (type === "added") gc.nodeThere(key);
    if (type === "deleted") gc.nodeGone(key);
    if (nodeAddressesText(object) !== nodeAddressesText(before)) {
      nodes.enqueue(key);
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
