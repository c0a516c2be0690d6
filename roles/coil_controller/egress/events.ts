import {
  type Condition,
  conditionOf,
  type Egress,
  EGRESS_CAPACITY_LOW,
  EGRESS_CLIENTS_LIMITED,
  EGRESS_DEGRADED,
  EGRESS_READY,
  EGRESS_REDUNDANT,
  EGRESS_SOURCES_TRANSLATED,
  type EgressStatus,
} from "../../../lib/api/mod.ts";
import type { EventInfo } from "../../../lib/kube/mod.ts";

/** The Event of an object that was made. */
export function createdEvent(
  { metadata }: Egress,
  { kind }: { readonly kind: string },
): EventInfo {
  return {
    type: "Normal",
    reason: "Created",
    message: `Created ${kind} "${metadata.name}"`,
  };
}

/** Returns the Events that a change of an Egress' conditions is worth. */
export function egressEvents(
  before: EgressStatus | undefined,
  after: EgressStatus,
): EventInfo[] {
  const find = (type: string): Change => ({
    was: conditionOf(before?.conditions, type),
    is: conditionOf(after.conditions, type),
  });
  return [
    ...readyEvents(find(EGRESS_READY)),
    ...degradedEvents(find(EGRESS_DEGRADED)),
    ...capacityEvents(find(EGRESS_CAPACITY_LOW)),
    ...limitedEvents(find(EGRESS_CLIENTS_LIMITED)),
    ...redundantEvents(find(EGRESS_REDUNDANT)),
    ...translatedEvents(find(EGRESS_SOURCES_TRANSLATED)),
  ];
}

interface Change {
  readonly was: Condition | undefined;
  readonly is: Condition | undefined;
}

/** A new Egress is not ready for a while, which is not news. */
function readyEvents({ was, is }: Change): EventInfo[] {
  if (is === undefined || is.status === was?.status) return [];
  const { message } = is;
  if (is.status === "True") {
    return [{ type: "Normal", reason: "Ready", message }];
  }
  if (was === undefined) return [];
  return [{ type: "Warning", reason: "NotReady", message }];
}

function degradedEvents({ was, is }: Change): EventInfo[] {
  if (is?.status === "True") {
    const isNews = was?.status !== "True" || was.reason !== is.reason;
    const { reason, message } = is;
    return isNews ? [{ type: "Warning", reason, message }] : [];
  }
  if (is === undefined || was?.status !== "True") return [];
  return [{ type: "Normal", reason: "Recovered", message: is.message }];
}

function capacityEvents({ was, is }: Change): EventInfo[] {
  if (is === undefined || is.status === was?.status) return [];
  const { message } = is;
  if (is.status === "True") {
    return [{ type: "Warning", reason: EGRESS_CAPACITY_LOW, message }];
  }
  if (was?.status !== "True") return [];
  return [{ type: "Normal", reason: "CapacityRestored", message }];
}

/** Once, not for each client: who they are is in the condition. */
function limitedEvents({ was, is }: Change): EventInfo[] {
  if (is === undefined || is.reason === was?.reason) return [];
  const { message } = is;
  return [{ type: "Warning", reason: EGRESS_CLIENTS_LIMITED, message }];
}

function redundantEvents({ was, is }: Change): EventInfo[] {
  if (is === undefined || is.message === was?.message) return [];
  return [{ type: "Warning", reason: EGRESS_REDUNDANT, message: is.message }];
}

/** Once, not for each gateway: which they are is in the condition. */
function translatedEvents({ was, is }: Change): EventInfo[] {
  if (is === undefined || was !== undefined) return [];
  const { message } = is;
  return [{ type: "Warning", reason: EGRESS_SOURCES_TRANSLATED, message }];
}
