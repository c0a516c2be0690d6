import type {
  AddressCounts,
  AddressPoolStatus,
  BlockCounts,
} from "./address_pool.ts";
import {
  canonicalJson,
  type ConditionDraft,
  conditionOf,
  datedCondition,
  sameConditions,
} from "../base/condition.ts";
import { type BlockCount, countBlocks } from "./block_count.ts";
import type { Pool } from "./pool.ts";
import { lowCondition } from "./pool_capacity.ts";
import {
  type ReservedBlocks,
  reservedBlocks,
  usableBlocks,
} from "./reserved.ts";
import type { Span } from "./span.ts";
import { type PoolForecast, usedUpCondition } from "./pool_forecast.ts";
import {
  busyBlocks,
  reservedInUseCondition,
  usageText,
  type UsedAddresses,
  usedIn,
} from "./pool_usage.ts";

/** Condition of an AddressPool: a node that asks for a block gets one. */
export const CONDITION_READY = "Ready";

/** Condition of an AddressPool, there only while it is true: others have addresses of the pool too. */
export const CONDITION_OVERLAPPING = "Overlapping";

/** The most nodes named in a status. */
const MAX_NAMED_NODES = 5;

/** Condition of an AddressPool, there only while it is true: the cluster uses addresses of the pool for something else. */
export const CONDITION_CLUSTER_ADDRESSES = "ClusterAddresses";

/** Reason of {@linkcode CONDITION_CLUSTER_ADDRESSES}: nodes or Services have addresses of the pool. */
export const REASON_ADDRESSES_IN_USE = "AddressesInUse";

/** Reason of {@linkcode CONDITION_CLUSTER_ADDRESSES}: the pool lies in podCIDRs of Nodes, which is harmless without another network plugin. */
export const REASON_IN_POD_CIDR = "InPodCIDR";

/** Condition of an AddressPool, there only while it is true: pods' addresses and blocks of the pool are inconsistent. */
export const CONDITION_INCONSISTENT = "Inconsistent";

/** Findings of an audit of a pool's addresses. */
export interface PoolAuditReport {
  /** The inconsistencies, and what to do; undefined if there are none. */
  readonly problem?: string | undefined;
}

/** The cluster's own uses of addresses of a pool. */
export interface ClusterUse {
  /** How much it matters. */
  readonly reason:
    | typeof REASON_ADDRESSES_IN_USE
    | typeof REASON_IN_POD_CIDR;
  /** Which addresses, what for, and what to do. */
  readonly message: string;
}

/** The addresses of a pool that others have. */
export interface PoolOverlapReport {
  /** Indices of blocks that overlap blocks of others; sorted, none twice. */
  readonly taken: readonly Span[];
  /** Who has which addresses. */
  readonly message: string;
}

/** Input of the status of a pool. */
export interface PoolFacts {
  /** Index of each existing block, reserved ones included, in any order. */
  readonly allocated: readonly number[];
  /** What pods use; what the previous status says as long as it is not known. */
  readonly used?: UsedAddresses | undefined;
  /** How fast a pool with such numbers, and so many blocks with pods, is used up, if that is known. */
  readonly forecast?:
    | ((blocks: BlockCounts, busy: number) => PoolForecast | undefined)
    | undefined;
  /** The node of each existing block. */
  readonly nodes?: Iterable<string>;
  /** What others have of the pool. */
  readonly overlap?: PoolOverlapReport | undefined;
  /** What the cluster uses addresses of the pool for. */
  readonly cluster?: ClusterUse | undefined;
  /** What the previous status says as long as there was no audit. */
  readonly audit?: PoolAuditReport | undefined;
  /** The status that the object has now. */
  readonly previous?: AddressPoolStatus | undefined;
  /** The time of conditions that change. */
  readonly now: Date;
}

/**
 * Computes the status of a pool from the indices of its existing blocks.
 *
 * A condition keeps the `lastTransitionTime` of the previous status as long
 * as its `status` stays the same, so an unchanged pool gives an equal status.
 */
export function poolStatus(pool: Pool, facts: PoolFacts): AddressPoolStatus {
  const existing = new Set(facts.allocated);
  const reserved = reservedBlocks(pool);
  const { blocks, ...families } = countsOf(pool, facts, { existing, reserved });
  const usage = usageText(families);
  const heldBy = holdersText(facts.nodes ?? []);
  const conditions = [
    readyCondition(pool, { blocks, heldBy }),
    lowCondition(blocks, {
      usable: usableBlocks(pool, reserved),
      previous: facts.previous?.conditions,
    }),
    ...transientConditions(blocks, facts, existing),
  ];
  return {
    observedGeneration: pool.generation,
    blockSize: addressesIn(pool, 1),
    blocks,
    ...families,
    ...(usage === undefined ? {} : { usage }),
    ...(heldBy === "" ? {} : { heldBy }),
    conditions: conditions.map((draft) =>
      datedCondition(draft, {
        previous: facts.previous?.conditions,
        generation: pool.generation,
        now: facts.now,
      })
    ),
  };
}

interface PoolNumbers {
  readonly blocks: BlockCounts;
  ipv4?: AddressCounts;
  ipv6?: AddressCounts;
}

function countsOf(
  pool: Pool,
  { allocated, overlap, used, previous }: PoolFacts,
  { existing, reserved }: {
    readonly existing: ReadonlySet<number>;
    readonly reserved: ReservedBlocks;
  },
): PoolNumbers {
  const { blocks, families } = countBlocks(pool, {
    allocated,
    taken: overlap?.taken ?? [],
    reserved,
  });
  const numbers: PoolNumbers = { blocks: withUnavailable(blocks) };
  for (const [family, count] of families) {
    const known = used && usedIn(used[family], existing).toString();
    numbers[family] = addressCounts(pool, {
      ...count,
      used: known ?? previous?.[family]?.used,
    });
  }
  return numbers;
}

/** The conditions that are there only while they are true. */
function transientConditions(
  blocks: BlockCounts,
  { used, forecast, overlap, cluster, audit, previous }: PoolFacts,
  existing: ReadonlySet<number>,
): ConditionDraft[] {
  const before = previous?.conditions;
  const soon = usedUpCondition(
    used && forecast?.(blocks, busyBlocks(used, existing)),
    { blocks, previous: before },
  );
  const reserved = reservedInUseCondition(used, {
    blocks: existing,
    previous: before,
  });
  const status = "True";
  return [
    soon,
    reserved,
    overlap && {
      type: CONDITION_OVERLAPPING,
      status,
      reason: "SharedAddresses",
      message: overlap.message,
    } as const,
    cluster &&
    { type: CONDITION_CLUSTER_ADDRESSES, status, ...cluster } as const,
    audit === undefined
      ? conditionOf(before, CONDITION_INCONSISTENT)
      : inconsistentCondition(audit),
  ].filter((draft) => draft !== undefined);
}

function inconsistentCondition(
  { problem }: PoolAuditReport,
): ConditionDraft | undefined {
  return problem === undefined ? undefined : {
    type: CONDITION_INCONSISTENT,
    status: "True",
    reason: "AddressesDoNotFit",
    message: problem,
  };
}

/**
 * Status of a pool that cannot be read: no counts, and `Ready` says why.
 */
export function unreadablePoolStatus(
  options: {
    readonly message: string;
    readonly generation: number;
    readonly previous?: AddressPoolStatus | undefined;
    readonly now: Date;
  },
): AddressPoolStatus {
  const draft: ConditionDraft = {
    type: CONDITION_READY,
    status: "False",
    reason: "InvalidSpec",
    message: options.message,
  };
  return {
    observedGeneration: options.generation,
    conditions: [
      datedCondition(draft, {
        ...options,
        previous: options.previous?.conditions,
      }),
    ],
  };
}

/** Whether two statuses say the same, so that no write is needed. */
export function poolStatusEquals(
  a: AddressPoolStatus | undefined,
  b: AddressPoolStatus | undefined,
): boolean {
  return canonicalJson(a) === canonicalJson(b);
}

/**
 * Whether a status says more than other numbers: a condition changed, what is
 * used became known, or the pool came into use or out of it, which decides
 * whether it may be deleted.
 */
export function isPoolStatusNews(
  before: AddressPoolStatus | undefined,
  after: AddressPoolStatus,
): boolean {
  const isUsed = ({ blocks }: AddressPoolStatus) =>
    blocks !== undefined && blocks.allocated > 0;
  return before === undefined || isUsed(before) !== isUsed(after) ||
    before.observedGeneration !== after.observedGeneration ||
    before.blocks?.total !== after.blocks?.total ||
    (before.usage === undefined) !== (after.usage === undefined) ||
    !sameConditions(before.conditions, after.conditions);
}

/** Adds how many blocks neither exist nor can be allocated. */
function withUnavailable({ total, allocated, free }: BlockCount): BlockCounts {
  const unavailable = total - allocated - free;
  return { total, allocated, free, ...(unavailable > 0 && { unavailable }) };
}

function addressCounts(
  pool: Pool,
  { total, allocated, free, reserved, used }: BlockCount & {
    readonly used: string | undefined;
  },
): AddressCounts {
  return {
    total: addressesIn(pool, total),
    allocated: addressesIn(pool, allocated),
    free: `${BigInt(addressesIn(pool, free)) - BigInt(reserved)}`,
    ...(used === undefined ? {} : { used }),
  };
}

function addressesIn(pool: Pool, blocks: number): string {
  return (BigInt(blocks) << BigInt(pool.blockSizeBits)).toString();
}

/** Says which nodes hold how many blocks: "node1 (5), node2 (4) and 3 other nodes". */
function holdersText(nodes: Iterable<string>): string {
  const counts = new Map<string, number>();
  for (const node of nodes) counts.set(node, (counts.get(node) ?? 0) + 1);
  const sorted = [...counts].sort((a, b) =>
    b[1] - a[1] || (a[0] < b[0] ? -1 : 1)
  );
  const named = sorted.slice(0, MAX_NAMED_NODES)
    .map(([node, count]) => `${node} (${count})`).join(", ");
  const rest = sorted.length - MAX_NAMED_NODES;
  if (rest <= 0) return named;
  return `${named} and ${rest} other ${rest === 1 ? "node" : "nodes"}`;
}

function readyCondition(
  pool: Pool,
  { blocks, heldBy }: {
    readonly blocks: BlockCounts;
    readonly heldBy: string;
  },
): ConditionDraft {
  const type = CONDITION_READY;
  if (pool.deleting) {
    const message = blocks.allocated === 0
      ? "The pool is being deleted"
      : `The pool is being deleted: ${blocks.allocated} blocks are still in use` +
        (heldBy === "" ? "" : `, on ${heldBy}`) +
        `; pods get no more addresses of it. Delete its pods: coil ipam show addresses --pool ${pool.name}`;
    return { type, status: "False", reason: "Deleting", message };
  }
  if (pool.paused) {
    const message =
      "The pool is paused: pods get no address of it, and nodes no block, until spec.paused is removed";
    return { type, status: "False", reason: "Paused", message };
  }
  if (blocks.free === 0) {
    const message = blocks.allocated === blocks.total
      ? `All ${blocks.total} blocks are in use: add a subnet`
      : `${blocks.allocated} of ${blocks.total} blocks are in use, and addresses of the rest are ${
        pool.reserved.length > 0 ? "reserved or " : ""
      }used elsewhere: add a subnet`;
    return { type, status: "False", reason: "Exhausted", message };
  }
  const message = `${blocks.free} of ${blocks.total} blocks are free`;
  return { type, status: "True", reason: "BlocksAvailable", message };
}
