import { type ConditionDraft, conditionOf } from "../base/condition.ts";
import type { Egress, EgressGatewayStatus } from "./egress.ts";
import { parseDestinations } from "./egress_destinations.ts";
import { gatewayText, lossText, lostGateways } from "./egress_losses.ts";

/** Condition of an Egress: a gateway serves its clients. */
export const EGRESS_READY = "Ready";
/** Condition of an Egress: its pods are being made or replaced. */
const EGRESS_PROGRESSING = "Progressing";
/** Condition of an Egress: less is there than wanted, or something was refused. */
export const EGRESS_DEGRADED = "Degraded";
/** Condition of an Egress: a gateway runs out of connections or source ports. */
export const EGRESS_CAPACITY_LOW = "CapacityLow";
/** Condition of an Egress, there only while it is true: clients want more of a gateway than their share. */
export const EGRESS_CLIENTS_LIMITED = "ClientsLimited";
/** Condition of an Egress, there only while it is true: nodes get no answer from a gateway. */
const EGRESS_GATEWAYS_LOST = "GatewaysLost";
/** Condition of an Egress, there only while it is true: the packets of a gateway leave its node with another source. */
export const EGRESS_SOURCES_TRANSLATED = "SourcesTranslated";
/** Condition of an Egress, there only while it is true: destinations that are there twice, or have host bits. */
export const EGRESS_REDUNDANT = "RedundantDestinations";

/** From this share on, of connections or source ports, a gateway is short of them. */
export const EGRESS_CAPACITY_LOW_PERCENT = 80;
/** Below this share it is no longer short of them. */
export const EGRESS_CAPACITY_OK_PERCENT = 70;

/** Longest part of a condition's message, in characters: ten of it are within the 32768 that the schema allows. */
const MAX_SENTENCE = 2000;

/** Something that the Egress wants and does not get. */
export interface EgressProblem {
  /** One word in CamelCase. */
  readonly reason: string;
  /** A sentence; of the API server's refusal, its own words. */
  readonly message: string;
  /** Whether no client can be served because of it. */
  readonly isFatal: boolean;
}

/** The observed Deployment of an Egress. */
export interface EgressWorkload {
  /** Whether the numbers are of its present spec. */
  readonly isObserved: boolean;
  readonly replicas: number;
  readonly updatedReplicas: number;
  readonly availableReplicas: number;
  /** Why no more pods can be made, from its condition ReplicaFailure. */
  readonly failure?: { readonly reason: string; readonly message: string };
  /** Reason and message of its condition Progressing. */
  readonly progress?: {
    readonly isStuck: boolean;
    readonly isComplete: boolean;
    readonly message: string;
  };
}

/** Input of the status of an Egress. */
export interface EgressObservation {
  /** Absent as long as there is no Deployment. */
  readonly workload?: EgressWorkload;
  readonly problems: readonly EgressProblem[];
  /** Pods that use the Egress. */
  readonly clients: number;
  /** The reports of the existing pods. */
  readonly gateways: readonly EgressGatewayStatus[];
  readonly now: Date;
}

/** The conditions of an Egress as it is seen. */
export function egressConditions(
  egress: Egress,
  observation: EgressObservation,
): ConditionDraft[] {
  return [
    readyCondition(egress, observation),
    progressingCondition(egress, observation),
    degradedCondition(egress, observation),
    capacityCondition(egress, observation),
    ...limitedCondition(observation),
    ...lostCondition(observation),
    ...translatedCondition(observation),
    ...redundantCondition(egress),
  ];
}

function readyCondition(
  egress: Egress,
  { workload, problems }: EgressObservation,
): ConditionDraft {
  const type = EGRESS_READY;
  const available = workload?.availableReplicas ?? 0;
  const fatal = problems.find(({ isFatal }) => isFatal);
  if (fatal !== undefined && available === 0) {
    const { reason, message } = fatal;
    return { type, status: "False", reason, message: cut([message]) };
  }
  const message = `${available} of ${wantedOf(egress)} pods are available`;
  return available > 0
    ? { type, status: "True", reason: "GatewayAvailable", message }
    : { type, status: "False", reason: "NoGatewayAvailable", message };
}

function progressingCondition(
  egress: Egress,
  { workload }: EgressObservation,
): ConditionDraft {
  const type = EGRESS_PROGRESSING;
  if (workload === undefined) {
    const message = "The Deployment does not exist yet";
    return { type, status: "Unknown", reason: "NoDeployment", message };
  }
  if (workload.progress?.isStuck) {
    const message = cut([workload.progress.message]);
    return { type, status: "False", reason: "DeadlineExceeded", message };
  }
  const { replicas, updatedReplicas, availableReplicas } = workload;
  const message = `${updatedReplicas} of ${
    wantedOf(egress)
  } pods are up to date, ${availableReplicas} are available, ${
    Math.max(0, replicas - updatedReplicas)
  } are old`;
  return isProgressing(egress, workload)
    ? { type, status: "True", reason: "RollingOut", message }
    : { type, status: "False", reason: "Complete", message };
}

function isProgressing(egress: Egress, workload: EgressWorkload): boolean {
  const { isObserved, replicas, updatedReplicas, availableReplicas } = workload;
  if (workload.progress?.isStuck) return false;
  if (!isObserved || updatedReplicas < wantedOf(egress)) return true;
  if (replicas > updatedReplicas) return true;
  // A pod that fails after the roll-out does not count as progressing.
  return availableReplicas < updatedReplicas &&
    workload.progress?.isComplete !== true;
}

function degradedCondition(
  egress: Egress,
  { workload, problems }: EgressObservation,
): ConditionDraft {
  const type = EGRESS_DEGRADED;
  const [first] = problems;
  if (first !== undefined) {
    const message = cut(problems.map((problem) => problem.message));
    return { type, status: "True", reason: first.reason, message };
  }
  if (workload?.failure !== undefined) {
    const { reason, message } = workload.failure;
    return { type, status: "True", reason, message: cut([message]) };
  }
  const wanted = wantedOf(egress);
  const available = workload?.availableReplicas ?? 0;
  const message = `${available} of ${wanted} pods are available`;
  if (workload?.progress?.isStuck) {
    return { type, status: "True", reason: "DeadlineExceeded", message };
  }
  if (available >= wanted) {
    return { type, status: "False", reason: "AsWanted", message };
  }
  return workload === undefined || isProgressing(egress, workload)
    ? { type, status: "False", reason: "RollingOut", message }
    : { type, status: "True", reason: "PodsUnavailable", message };
}

function capacityCondition(
  egress: Egress,
  { gateways }: EgressObservation,
): ConditionDraft {
  const type = EGRESS_CAPACITY_LOW;
  if (gateways.length === 0) {
    const message = "No gateway has reported yet";
    return { type, status: "Unknown", reason: "NoReport", message };
  }
  const before = conditionOf(egress.status?.conditions, type);
  const limit = before?.status === "True"
    ? EGRESS_CAPACITY_OK_PERCENT
    : EGRESS_CAPACITY_LOW_PERCENT;
  const isShort = (percent = 0) => percent >= limit;
  const byConnections = gateways.filter((g) => isShort(g.conntrackPercent));
  const byPorts = gateways.filter((g) => isShort(g.snatPortsPercent));
  if (byConnections.length + byPorts.length === 0) {
    const message = "Every gateway has room for more connections";
    return { type, status: "False", reason: "Sufficient", message };
  }
  const most = (client?: string) =>
    client === undefined ? "" : `, the most for ${client}`;
  const message = cut([
    ...byConnections.map((g) =>
      `${g.name} uses ${g.conntrackPercent}% of its connection table${
        most(g.largestClient)
      }`
    ),
    ...byPorts.map((g) =>
      `${g.name} uses ${g.snatPortsPercent}% of its source ports to ${
        g.snatPortsDestination ?? "one destination"
      }${most(g.snatPortsClient)}`
    ),
  ]);
  const reason = byConnections.length > 0 ? "ConntrackFull" : "SourcePortsUsed";
  return {
    type,
    status: "True",
    reason,
    message: `${message}. Raise spec.replicas above ${
      wantedOf(egress)
    }: each replica has its own connections and source ports`,
  };
}

function limitedCondition({ gateways }: EgressObservation): ConditionDraft[] {
  const limited = gateways.filter(({ limitedClients = [] }) =>
    limitedClients.length > 0
  );
  const unlimited = gateways.filter((gateway) => gateway.unlimited === true);
  if (limited.length + unlimited.length === 0) return [];
  return [{
    type: EGRESS_CLIENTS_LIMITED,
    ...limited.length > 0
      ? { status: "True", reason: "MaxFlowsPerClient" }
      : { status: "False", reason: "NotSupportedByKernel" },
    message: cut([
      ...limited.map(({ name, limitedClients = [] }) =>
        `${name} dropped connections of ${
          limitedClients.join(", ")
        }: each has reached the limit of spec.maxFlowsPerClient, by default a quarter of the gateway's connections`
      ),
      ...unlimited.map(({ name }) =>
        `${name} does not limit its clients: its node's kernel lacks nft_connlimit or nft_limit, so one client can use all connections`
      ),
    ]),
  }];
}

function lostCondition({ gateways }: EgressObservation): ConditionDraft[] {
  const lost = lostGateways(gateways);
  if (lost.length === 0) return [];
  return [{
    type: EGRESS_GATEWAYS_LOST,
    status: "True",
    reason: "NoAnswer",
    message: cut(lost.map(lossText)),
  }];
}

function translatedCondition(
  { gateways }: EgressObservation,
): ConditionDraft[] {
  const sentences = gateways.flatMap((gateway) =>
    (gateway.translated ?? []).map((each) =>
      `packets of ${
        gatewayText(gateway)
      } leave the node as ${each.seenAs}, not as ${each.address} (for example to ${each.destination})`
    )
  );
  if (sentences.length === 0) return [];
  return [{
    type: EGRESS_SOURCES_TRANSLATED,
    status: "True",
    reason: "NodeMasquerades",
    message: `${
      cut(sentences)
    }. Exclude the gateways' addresses or the destinations from the masquerading of these nodes`,
  }];
}

function redundantCondition({ spec }: Egress): ConditionDraft[] {
  const { remarks } = parseDestinations(spec.destinations);
  if (remarks.length === 0) return [];
  return [{
    type: EGRESS_REDUNDANT,
    status: "True",
    reason: "SameNetwork",
    message: cut(remarks),
  }];
}

/** One message of ten sentences at most, none so long that the API server refuses the status. */
function cut(sentences: readonly string[]): string {
  const shown = sentences.slice(0, 10)
    .map((sentence) =>
      sentence.length > MAX_SENTENCE
        ? `${sentence.slice(0, MAX_SENTENCE)}…`
        : sentence
    )
    .join("; ");
  const rest = sentences.length - 10;
  return rest > 0 ? `${shown}; and ${rest} more` : shown;
}

function wantedOf({ spec }: Egress): number {
  return spec.replicas ?? 1;
}
