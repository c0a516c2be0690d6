import {
  type AddressPool,
  type AddressPoolStatus,
  type Condition,
  CONDITION_CAPACITY_LOW,
  CONDITION_CLUSTER_ADDRESSES,
  CONDITION_INCONSISTENT,
  CONDITION_OVERLAPPING,
  CONDITION_READY,
  CONDITION_RESERVED_IN_USE,
  CONDITION_USED_UP_SOON,
  conditionOf,
  REASON_IN_POD_CIDR,
} from "../../../lib/api/mod.ts";
import type { EventInfo } from "../../../lib/kube/mod.ts";

/** A condition that is there only while it is true, and the Event when it ends. */
interface Transient {
  readonly type: string;
  readonly ended: string;
  readonly message: (status: AddressPoolStatus) => string;
}

const TRANSIENT: readonly Transient[] = [
  {
    type: CONDITION_USED_UP_SOON,
    ended: "UsedUpSoonEnded",
    message: ({ blocks }) =>
      blocks?.free === 0
        ? "The pool is used up"
        : "The pool is no longer used up within a day at the present rate",
  },
  {
    type: CONDITION_RESERVED_IN_USE,
    ended: "ReservedInUseEnded",
    message: () => "Pods no longer have reserved addresses of the pool",
  },
  {
    type: CONDITION_OVERLAPPING,
    ended: "OverlapEnded",
    message: () => "The pool's addresses are no longer used elsewhere",
  },
  {
    type: CONDITION_CLUSTER_ADDRESSES,
    ended: "ClusterAddressesEnded",
    message: () => "The cluster no longer uses addresses of the pool",
  },
  {
    type: CONDITION_INCONSISTENT,
    ended: "InconsistencyEnded",
    message: () =>
      "Pods' addresses and blocks of the pool are consistent again",
  },
];

/** Returns the Events that a change of a pool's status is worth: one for each condition that flipped. */
export function poolEvents(
  pool: Pick<AddressPool, "status">,
  status: AddressPoolStatus,
): EventInfo[] {
  const events: EventInfo[] = [];
  const ready = changed(pool.status, status, CONDITION_READY);
  const low = flipped(pool.status, status, CONDITION_CAPACITY_LOW);
  const isDeleting = ready?.reason === "Deleting";
  // A pool without blocks goes at once.
  const isNews = !isDeleting || (status.blocks?.allocated ?? 0) > 0;
  if (ready?.status === "False" && isNews) {
    events.push({
      type: "Warning",
      reason: ready.reason,
      message: ready.message,
    });
  } else if (low?.status === "True") {
    // A pool that is exhausted is low too; once is enough.
    events.push({
      type: "Warning",
      reason: CONDITION_CAPACITY_LOW,
      message: low.message,
    });
  }
  if (low?.status === "False" && before(pool.status, CONDITION_CAPACITY_LOW)) {
    events.push({
      type: "Normal",
      reason: "CapacityRestored",
      message: low.message,
    });
  }
  for (const condition of TRANSIENT) {
    events.push(...transient(pool.status, status, condition));
  }
  return events;
}

function transient(
  previous: AddressPoolStatus | undefined,
  status: AddressPoolStatus,
  { type, ended, message }: Transient,
): EventInfo[] {
  const now = conditionOf(status.conditions, type);
  if (now?.reason === conditionOf(previous?.conditions, type)?.reason) {
    return [];
  }
  if (now === undefined) {
    return [{ type: "Normal", reason: ended, message: message(status) }];
  }
  const isHarmless = now.reason === REASON_IN_POD_CIDR;
  return [{
    type: isHarmless ? "Normal" : "Warning",
    reason: isHarmless ? now.reason : type,
    message: now.message,
  }];
}

/** As {@linkcode flipped}, also when a pool that was not ready before is deleted. */
function changed(
  previous: AddressPoolStatus | undefined,
  status: AddressPoolStatus,
  type: string,
): Condition | undefined {
  const now = conditionOf(status.conditions, type);
  const isDeletion = now?.reason === "Deleting" &&
    conditionOf(previous?.conditions, type)?.reason !== "Deleting";
  return isDeletion ? now : flipped(previous, status, type);
}

function flipped(
  previous: AddressPoolStatus | undefined,
  status: AddressPoolStatus,
  type: string,
): Condition | undefined {
  const now = conditionOf(status.conditions, type);
  return now?.status === conditionOf(previous?.conditions, type)?.status
    ? undefined
    : now;
}

function before(
  previous: AddressPoolStatus | undefined,
  type: string,
): boolean {
  return conditionOf(previous?.conditions, type) !== undefined;
}
