import {
  ADDRESS_BLOCKS,
  type AddressBlock,
  type BlockRequest,
} from "../../../lib/api/mod.ts";
import {
  type EventInfo,
  type EventRecorder,
  referenceTo,
} from "../../../lib/kube/mod.ts";
import { describeError, getLogger } from "../../../lib/telemetry/mod.ts";
import type { Cluster } from "../ipam/cluster.ts";
import type { IpamMetrics } from "../ipam/metrics.ts";

const log = getLogger("setup");
const requestLog = getLogger("blockrequest-reconciler");

/** Reason of `Failed=True` when the node holds all blocks of the pool that it may have. */
export const REASON_NODE_LIMIT = "node block limit";

/** What became of a request. */
export type Answer =
  | { readonly result: "allocated"; readonly block: string }
  | {
    readonly result: "failed";
    readonly reason: string;
    readonly message: string;
  };

/** A Node that allows more pods than a node is believed to have. */
export interface Disbelief {
  readonly node: string;
  /** What it says, and what to do. */
  readonly message: string;
}

export interface BlockReportsOptions {
  readonly events: Pick<EventRecorder, "event">;
  readonly metrics: Pick<IpamMetrics, "requests" | "requestAnswered">;
  readonly nodes: Pick<Cluster["nodes"]["store"], "get">;
}

/** Reports what became of requests for blocks, and of blocks of deleted nodes: in the log, metrics and Events. */
export class BlockReports {
  readonly #options: BlockReportsOptions;

  constructor(options: BlockReportsOptions) {
    this.#options = options;
  }

  /** A request has its answer. */
  answered({ metadata, spec }: BlockRequest, answer: Answer): void {
    const { metrics } = this.#options;
    const { poolName: pool, nodeName: node } = spec;
    metrics.requests.inc({ pool, result: answer.result });
    metrics.requestAnswered(metadata.uid ?? "");
    if (answer.result === "allocated") {
      requestLog.info("Allocated block", { pool, node, block: answer.block });
      return;
    }
    const { reason, message } = answer;
    requestLog.warn("Refused block", { pool, node, reason, detail: message });
    if (reason !== REASON_NODE_LIMIT) return;
    this.#ofNode(node, {
      type: "Warning",
      reason: "BlockLimitReached",
      message,
    });
  }

  /** A Node allows more pods than it is believed; once until it says less. */
  disbelieved({ node, message }: Disbelief): void {
    log.warn("A Node allows more pods than --max-pods-per-node", {
      node,
      detail: message,
    });
    this.#ofNode(node, {
      type: "Warning",
      reason: "PodCountTooLarge",
      message,
    });
  }

  /** Blocks of a deleted node are free again. */
  released(node: string, message: string): void {
    this.#ofNode(node, { type: "Normal", reason: "BlocksReleased", message });
  }

  /** A block of a deleted node could not be released. */
  releaseFailed(block: AddressBlock, error: unknown): void {
    this.#options.events.event(referenceTo(ADDRESS_BLOCKS, block), {
      type: "Warning",
      reason: "ReleaseFailed",
      message: `Cannot release the block of a deleted node: ${
        describeError(error)
      }`,
    });
  }

  /** The Node may be gone. */
  #ofNode(name: string, info: EventInfo): void {
    const { events, nodes } = this.#options;
    const uid = nodes.get(name)?.metadata?.uid ?? "";
    events.event({ apiVersion: "v1", kind: "Node", name, uid }, info);
  }
}
