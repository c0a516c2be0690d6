import { GROUP_VERSION } from "../../names/mod.ts";
import type { ObjectMeta } from "../../kube/mod.ts";
import { timeText } from "../base/time.ts";

/** Desired state of a {@linkcode BlockRequest}. */
export interface BlockRequestSpec {
  /** Name of the node that asks. */
  readonly nodeName: string;
  /** Name of the pool to take the block from. */
  readonly poolName: string;
}

/** State of a BlockRequest; older than `metav1.Condition` and shaped differently. */
export interface BlockRequestCondition {
  /** Which aspect: whether there is an answer, and whether it is a refusal. */
  readonly type: "Complete" | "Failed";
  /** Whether it holds. */
  readonly status: "True" | "False" | "Unknown";
  /** Why, in a few words; upstream's coild reports this one of a refusal. */
  readonly reason?: string;
  /** Why, in a sentence for people. */
  readonly message?: string;
  /** RFC 3339 time. */
  readonly lastProbeTime?: string;
  /** RFC 3339 time. */
  readonly lastTransitionTime?: string;
}

/** Observed state of a {@linkcode BlockRequest}, written by coil-controller. */
export interface BlockRequestStatus {
  /** Name of the AddressBlock that the node got. */
  readonly addressBlockName?: string;
  /** `Complete`, and `Failed` beside it after a refusal; none while there is no answer. */
  readonly conditions?: readonly BlockRequestCondition[];
}

/** A node's request for one more block of a pool, cluster scoped. */
export interface BlockRequest {
  readonly apiVersion: typeof GROUP_VERSION;
  /** The kind of the object. */
  readonly kind: "BlockRequest";
  /** Name and the like; the Node is its owner. */
  readonly metadata: ObjectMeta;
  /** What the node wants. It never changes. */
  readonly spec: BlockRequestSpec;
  /** The controller's answer; absent until there is one. */
  readonly status?: BlockRequestStatus;
}

/** The outcome of a BlockRequest. */
export type BlockRequestResult =
  | { readonly state: "pending" }
  | { readonly state: "complete"; readonly block: string }
  | {
    readonly state: "failed";
    readonly reason: string;
    readonly message: string;
  };

/** Reason of `Complete=True` when the request got a block. */
const REASON_ALLOCATED = "allocated";

/** Reason of `Failed=True` when the pool has no block left. */
export const REASON_OUT_OF_BLOCKS = "out of blocks";

/** Says, for `Failed=True` with {@linkcode REASON_OUT_OF_BLOCKS}, that a pool has no free block, and who has its addresses if others do. */
export function outOfBlocksMessage(pool: string, overlap?: string): string {
  return noFreeBlock(pool) + (overlap === undefined ? "" : `: ${overlap}`);
}

/** Returns the overlap that {@linkcode outOfBlocksMessage} was given; undefined when there was none, or when the message is not of its making. */
export function overlapInMessage(
  pool: string,
  message: string,
): string | undefined {
  const start = `${noFreeBlock(pool)}: `;
  return message.startsWith(start) ? message.slice(start.length) : undefined;
}

function noFreeBlock(pool: string): string {
  return `AddressPool "${pool}" has no free block`;
}

/** Reason of `Failed=True` when there is no such pool. */
export const REASON_POOL_NOT_FOUND = "pool not found";

/** Reason of `Failed=True` when the pool is paused. */
export const REASON_POOL_PAUSED = "pool paused";

/**
 * Evaluates the status of a BlockRequest: a failure wins over completion, and
 * a client that reads only `Complete`, as upstream's coild does, sees the failure too.
 */
export function blockRequestResult(
  request: Pick<BlockRequest, "status">,
): BlockRequestResult {
  const conditions = request.status?.conditions ?? [];
  const failed = conditions.find((c) =>
    c.type === "Failed" && c.status === "True"
  );
  if (failed !== undefined) {
    return {
      state: "failed",
      reason: failed.reason ?? "",
      message: failed.message ?? "",
    };
  }
  const block = request.status?.addressBlockName;
  const complete = conditions.some((c) =>
    c.type === "Complete" && c.status === "True"
  );
  if (!complete || block === undefined || block === "") {
    return { state: "pending" };
  }
  return { state: "complete", block };
}

/**
 * Name of the request of a node for a pool: there is at most one at a time.
 *
 * It is upstream's `req-<pool>-<node>`, with each dash of the pool's name
 * doubled: else node `c` and pool `a-b` would make the same of it as node
 * `b-c` and pool `a`, and one would delete the other's request. Names neither
 * start nor end with a dash, so the first one that stands alone, behind
 * `req-`, is where the pool's ends. An expression can say this, and so
 * `deploy/policies` hold each node to names that are its own; a hash could
 * not be checked.
 *
 * Both are values of labels, too: at most 63 characters, so that the whole
 * is always shorter than the 253 that the API server accepts.
 */
export function blockRequestName(pool: string, node: string): string {
  return `req-${pool.replaceAll("-", "--")}-${node}`;
}

/** First parts of the names that a request may have; the first choice of every pair of node and pool has the first part. */
const NAME_STARTS = ["req", "req2", "req3"] as const;

/**
 * Names that the request of a node for a pool may have, in the order in which they are to be tried:
 * {@linkcode blockRequestName}, and others for when that is the name of an object that is not the node's, as one that
 * upstream's coild made of another pool and node.
 */
export function blockRequestNames(
  pool: string,
  node: string,
): readonly string[] {
  const rest = blockRequestName(pool, node).slice("req".length);
  return NAME_STARTS.map((start) => `${start}${rest}`);
}

/** Returns the BlockRequest of a node, owned by the Node so that it vanishes with it. */
export function newBlockRequest(
  pool: string,
  node: { readonly name: string; readonly uid: string },
): BlockRequest {
  return {
    apiVersion: GROUP_VERSION,
    kind: "BlockRequest",
    metadata: {
      name: blockRequestName(pool, node.name),
      ownerReferences: [{
        apiVersion: "v1",
        kind: "Node",
        name: node.name,
        uid: node.uid,
      }],
    },
    spec: { nodeName: node.name, poolName: pool },
  };
}

/** Status of a request that got a block. */
export function completedStatus(
  block: string,
  now: Date,
): BlockRequestStatus {
  const message = `allocated block ${block}`;
  return {
    addressBlockName: block,
    conditions: [
      condition("Complete", { reason: REASON_ALLOCATED, message, now }),
    ],
  };
}

/** Status of a request that got none. */
export function failedStatus(
  failure: { readonly reason: string; readonly message: string },
  now: Date,
): BlockRequestStatus {
  const done = "completed with failure";
  return {
    conditions: [
      condition("Complete", { reason: done, message: done, now }),
      condition("Failed", { ...failure, now }),
    ],
  };
}

function condition(
  type: BlockRequestCondition["type"],
  { reason, message, now }: {
    readonly reason: string;
    readonly message: string;
    readonly now: Date;
  },
): BlockRequestCondition {
  const time = timeText(now);
  return {
    type,
    status: "True",
    reason,
    message,
    lastProbeTime: time,
    lastTransitionTime: time,
  };
}
