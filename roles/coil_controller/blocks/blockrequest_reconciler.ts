import {
  ADDRESS_POOLS,
  type AddressPool,
  BLOCK_REQUESTS,
  type BlockRequest,
  type BlockRequestStatus,
  completedStatus,
  failedStatus,
  outOfBlocksMessage,
  type Pool,
  REASON_OUT_OF_BLOCKS,
  REASON_POOL_NOT_FOUND,
  REASON_POOL_PAUSED,
} from "../../../lib/api/mod.ts";
import { BlockRefusedError, OutOfBlocksError } from "../../../lib/ipam/mod.ts";
import {
  KubeApiError,
  type KubeClient,
  NODES,
  type Store,
  type V1Node,
} from "../../../lib/kube/mod.ts";
import { getLogger } from "../../../lib/telemetry/mod.ts";
import {
  type Answer,
  type BlockReports,
  REASON_NODE_LIMIT,
} from "./block_reports.ts";
import { nodeAddressesText } from "./node_addresses.ts";
import { isSettled } from "../ipam/transform.ts";
import { type NodeLimit, NodeLimitError } from "./node_limit.ts";
import type { Pools } from "./pools.ts";
import type { RequestBlocks } from "./request_blocks.ts";
import { readPool } from "../pools/read_pool.ts";

const log = getLogger("blockrequest-reconciler");

/** Reason of `Failed=True` when the node of the request does not exist. */
const REASON_NODE_NOT_FOUND = "node not found";
/** Reason of `Failed=True` when the pool's own specification cannot be read. */
const REASON_INVALID_POOL = "invalid pool";

/** Reason of `Failed=True` when the API server will not have such a block, as for a node's name that fits no label. */
const REASON_BLOCK_REFUSED = "block refused";

/** A status that is lost to other writers again and again is retried by the queue, with growing delays. */
const MAX_STATUS_ATTEMPTS = 5;

export interface BlockRequestReconcilerOptions {
  readonly client: KubeClient;
  readonly requests: Store<BlockRequest>;
  readonly pools: Store<AddressPool>;
  readonly nodes: Store<V1Node>;
  readonly answers: RequestBlocks;
  readonly allocator: Pick<Pools, "allocate" | "overlap">;
  readonly limit: Pick<NodeLimit, "take">;
  readonly reports: Pick<BlockReports, "answered">;
  readonly now?: () => Date;
}

/** Answers block requests: each gets one block, or the reason why not. */
export class BlockRequestReconciler {
  readonly #options: BlockRequestReconcilerOptions;
  constructor(options: BlockRequestReconcilerOptions) {
    this.#options = options;
  }

  /** Answers the request of the name, if there is one without an answer. */
  async reconcile(name: string, signal: AbortSignal): Promise<void> {
    const request = this.#options.requests.get(name);
    if (request === undefined || isSettled(request)) return;
    const answer = await this.#decide(request, signal);
    const written = await this.#write(request, answer, signal);
    if (written) this.#options.reports.answered(request, answer);
  }

  async #decide(request: BlockRequest, signal: AbortSignal): Promise<Answer> {
    const { answers, allocator, limit } = this.#options;
    const { nodeName, poolName } = request.spec;
    const requestUid = request.metadata.uid ?? "";
    const existing = await answers.find(requestUid, { signal });
    if (existing !== undefined) return { result: "allocated", block: existing };
    const found = await this.#usablePool(poolName, signal);
    if ("result" in found) return found;
    if (!await this.#nodeExists(nodeName, signal)) {
      return failed(REASON_NODE_NOT_FOUND, `Node "${nodeName}" does not exist`);
    }
    try {
      using seat = await limit.take(found, { node: nodeName, signal });
      // The API server may have been asked for the Node: the pool may be another by now, or gone.
      const pool = await this.#usablePool(poolName, signal);
      if ("result" in pool) return pool;
      const block = await allocator.allocate(pool, {
        node: nodeName,
        nodeAddresses: nodeAddressesText(this.#options.nodes.get(nodeName)),
        requestUid,
        signal,
        onTry: (name) => seat.allocating(name),
      });
      seat.allocated(block);
      answers.note(requestUid, block);
      return { result: "allocated", block };
    } catch (error) {
      if (error instanceof NodeLimitError) {
        return failed(REASON_NODE_LIMIT, error.message);
      }
      if (error instanceof BlockRefusedError) {
        return failed(REASON_BLOCK_REFUSED, error.message);
      }
      if (!(error instanceof OutOfBlocksError)) throw error;
      // It may have been paused or deleted while the blocks of other pools were read.
      const pool = await this.#usablePool(poolName, signal);
      if ("result" in pool) return pool;
      const overlap = allocator.overlap(poolName)?.message;
      return failed(
        REASON_OUT_OF_BLOCKS,
        outOfBlocksMessage(poolName, overlap),
      );
    }
  }

  /** The pool as it is now, or why no block of it can be given. */
  async #usablePool(
    name: string,
    signal: AbortSignal,
  ): Promise<Pool | Answer> {
    const object = await this.#findPool(name, signal);
    if (object === undefined) {
      return failed(
        REASON_POOL_NOT_FOUND,
        `AddressPool "${name}" does not exist`,
      );
    }
    const pool = readPool(object);
    if (pool instanceof SyntaxError) {
      return failed(REASON_INVALID_POOL, pool.message);
    }
    if (pool.deleting) {
      return failed(
        REASON_OUT_OF_BLOCKS,
        `AddressPool "${name}" is being deleted`,
      );
    }
    if (pool.paused) {
      return failed(REASON_POOL_PAUSED, `AddressPool "${name}" is paused`);
    }
    return pool;
  }

  /** Asks the API server before it says that there is no such pool: the informer may lag behind. */
  async #findPool(
    name: string,
    signal: AbortSignal,
  ): Promise<AddressPool | undefined> {
    const { client, pools } = this.#options;
    return pools.get(name) ??
      await client.tryGet(ADDRESS_POOLS, { name, signal });
  }

  async #nodeExists(name: string, signal: AbortSignal): Promise<boolean> {
    const { client, nodes } = this.#options;
    if (nodes.get(name) !== undefined) return true;
    return await client.tryGet(NODES, { name, metadataOnly: true, signal }) !==
      undefined;
  }

  /** Writes the answer; false when the request is gone or has one already. */
  async #write(
    request: BlockRequest,
    answer: Answer,
    signal: AbortSignal,
  ): Promise<boolean> {
    const { client, now = () => new Date() } = this.#options;
    const name = request.metadata.name ?? "";
    const status = statusOf(answer, now());
    let current: BlockRequest | undefined = request;
    for (let attempt = 1;; attempt++) {
      try {
        await client.updateStatus(BLOCK_REQUESTS, { ...current, status }, {
          signal,
        });
        return true;
      } catch (error) {
        if (!(error instanceof KubeApiError)) throw error;
        if (error.isNotFound) return false;
        if (!error.isConflict || attempt === MAX_STATUS_ATTEMPTS) throw error;
      }
      current = await client.tryGet(BLOCK_REQUESTS, { name, signal });
      const isSame = current?.metadata.uid === request.metadata.uid;
      if (current === undefined || !isSame || isSettled(current)) {
        log.info("Block request was already answered or replaced", {
          request: name,
        });
        return false;
      }
    }
  }
}

function statusOf(answer: Answer, now: Date): BlockRequestStatus {
  return answer.result === "allocated"
    ? completedStatus(answer.block, now)
    : failedStatus(answer, now);
}

function failed(reason: string, message: string): Answer {
  return { result: "failed", reason, message };
}
