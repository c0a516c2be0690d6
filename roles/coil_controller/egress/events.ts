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
  type EgressGatewayStatus,
  type EgressStatus,
  gatewayText,
  lossText,
  lostGateways,
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

/** Returns the Events that a change of an Egress' status is worth. */
export function egressEvents(
  before: EgressStatus | undefined,
  after: EgressStatus,
  gateways: readonly EgressGatewayStatus[] = [],
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
    ...lossEvents({ before, after, gateways }),
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

/** Of each gateway that is lost or answers again; not of one whose pod is gone. */
function lossEvents(
  { before, after, gateways }: {
    readonly before: EgressStatus | undefined;
    readonly after: EgressStatus;
    readonly gateways: readonly EgressGatewayStatus[];
  },
): EventInfo[] {
  const was = new Set(before?.lostGateways);
  const is = new Set(after.lostGateways);
  const lost = lostGateways(gateways)
    .filter(({ name }) => is.has(name) && !was.has(name));
  const back = gateways.filter(({ name }) => was.has(name) && !is.has(name));
  return [
    ...lost.map((each): EventInfo => ({
      type: "Warning",
      reason: "GatewayLost",
      message: lossText(each),
    })),
    ...back.map((each): EventInfo => ({
      type: "Normal",
      reason: "GatewayBack",
      message: `${gatewayText(each)} answers all nodes again`,
    })),
  ];
}
