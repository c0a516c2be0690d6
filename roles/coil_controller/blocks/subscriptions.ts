import type {
  AddressBlock,
  AddressPool,
  BlockRequest,
} from "../../../lib/api/mod.ts";
import { NODE_LABEL, POOL_LABEL } from "../../../lib/names/mod.ts";
import type { Cluster } from "../ipam/cluster.ts";
import { type CachedBlock, isSettled } from "../ipam/transform.ts";
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

/** Queues for watch events; keys only, except where only the deleted object has the facts. */
export interface IpamKeys {
  /** A block is looked at; a new leader looks at all at once. */
  readonly onBlock: () => void;
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
  keys: IpamKeys,
): Disposable {
  const stack = new DisposableStack();
  // What is there already counts as new: this leader has seen nothing of it.
  const all = { replay: true };
  stack.use(cluster.pools.subscribe(({ key }) => keys.onPool(key, 0), all));
  stack.use(cluster.blocks.subscribe(({ type, object }) => {
    keys.onBlock();
    const { pool, node } = holderOf(object);
    limit.settled(object.metadata.name ?? "", { node });
    if (type === "deleted") pools.freed(object);
    else pools.seen(object);
    if (type !== "deleted") {
      if (isMissing(node, cluster)) keys.onMissingNode(node);
      else keys.onNodeAddresses(node, object);
    }
    if (pool === "") return;
    for (const name of [pool, ...pools.neighbours(pool)]) {
      const delayMs = statusDelayMs(cluster.pools.store.get(name), {
        blocks: cluster.blocks.store.size,
      });
      keys.onPool(name, delayMs);
    }
  }, all));
  stack.use(cluster.requests.subscribe(({ type, object }) => {
    const uid = object.metadata.uid ?? "";
    if (type === "deleted" || isSettled(object)) {
      answers.forget(uid);
      keys.onClosedRequest(object);
      return;
    }
    if (type === "updated") answers.doubt(uid);
    keys.onOpenRequest(object);
  }, all));
  stack.use(cluster.nodes.subscribe(({ type, key, object, before }) => {
    if (type !== "updated") keys.onNode(key, type === "added");
    if (nodeAddressesText(object) !== nodeAddressesText(before)) {
      keys.onNodeAddresses(key);
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
