// What can happen to a simulated cluster, be it the table's or the product's.

/** A daemon that is replaced is away for so long. */
export const RESTART_MS = 10_000;
/** A leader that was killed has its lease for so long. */
export const LEASE_MS = 15_000;
/** kubelet reports a node's status at least this often. */
export const HEARTBEAT_S = 300;
/** Writes of a pod's object by scheduler, kubelet and controllers. */
export const POD_WRITES = { start: 5, end: 3 };

/** Where a pool is used up, one of so many nodes lacks a block. */
export const REFUSED_EACH = 5;

/** Counts up to now. */
export class Totals {
  starts = 0;
  obtained = 0;
  givenBack = 0;
  /** Requests for a block that were refused. */
  refused = 0;
}

/** A cluster with such nodes. */
export interface Simulated<N> {
  readonly nodes: readonly N[];
  readonly totals: Totals;
  /** Pods that run. */
  readonly pods: number;
  /** Blocks of all nodes. */
  readonly blocks: number;
  /** How many times as many pods start as end. */
  set rush(times: number);
  /** New nodes, whose daemons start. */
  addNodes(count: number): void;
  /** A node's coild is replaced by another. */
  replaceCoild(node: N): void;
  /** A node goes, with all its pods; they start elsewhere. */
  loseNode(node: N): void;
  /** A node comes back without its pods; it gives its blocks back. */
  returnNode(node: N): void;
  /** A pod is replaced by another, as in the rollout of a Deployment. */
  replacePod(): void;
  /** The API server is away for so long; then each watch is opened again by its own backoff. */
  restartServer(awayMs: number): void;
  /** The leader is killed. */
  failOver(): void;
  /** A node begins to ask for a block of a pool that has no other for it. */
  startRefusing(node: N, retryMs: number): void;
}
