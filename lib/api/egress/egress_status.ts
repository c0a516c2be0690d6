import {
  canonicalJson,
  datedCondition,
  sameConditions,
} from "../base/condition.ts";
import { compareText } from "../../names/mod.ts";
import type { Egress, EgressGatewayStatus, EgressStatus } from "./egress.ts";
import {
  egressConditions,
  type EgressObservation,
} from "./egress_conditions.ts";
import { lostGateways } from "./egress_losses.ts";
import { egressSelector } from "./egress_objects.ts";

/** Computes the controller's part of the status of an Egress: all but `gateways`, which the pods write. */
export function egressStatus(
  egress: Egress,
  observation: EgressObservation,
): Omit<EgressStatus, "gateways"> {
  const { workload, clients, gateways, now } = observation;
  const { name = "", generation = 0 } = egress.metadata;
  const previous = egress.status?.conditions;
  const lost = lostGateways(gateways).map((each) => each.name);
  return {
    observedGeneration: generation,
    replicas: workload?.replicas ?? 0,
    availableReplicas: workload?.availableReplicas ?? 0,
    selector: egressSelector(name),
    clients,
    sources: sourcesOf(gateways),
    ...(lost.length > 0 && { lostGateways: lost }),
    conditions: egressConditions(egress, observation).map((draft) =>
      datedCondition(draft, { previous, generation, now })
    ),
  };
}

/** The same in any order of the entries, so that none of it is a change. */
function sourcesOf(gateways: readonly EgressGatewayStatus[]): string[] {
  const all = gateways.flatMap(({ addresses = [] }) => addresses);
  return [...new Set(all)].sort(compareText);
}

/** Whether the controller's parts of two statuses say the same, so that no write is needed. */
export function egressStatusEquals(
  a: EgressStatus | undefined,
  b: EgressStatus | undefined,
): boolean {
  return comparable(a) === comparable(b);
}

/** Whether more has changed than the number of clients or the text of a condition. */
export function isEgressStatusNews(
  before: EgressStatus | undefined,
  after: EgressStatus,
): boolean {
  return before === undefined ||
    before.observedGeneration !== after.observedGeneration ||
    before.replicas !== after.replicas ||
    before.availableReplicas !== after.availableReplicas ||
    before.selector !== after.selector ||
    `${before.lostGateways ?? []}` !== `${after.lostGateways ?? []}` ||
    !sameConditions(before.conditions, after.conditions);
}

function comparable(status: EgressStatus | undefined): string {
  const { gateways: _, conditions = [], ...rest } = status ?? {};
  const sorted = conditions.toSorted((a, b) => a.type < b.type ? -1 : 1);
  return canonicalJson({ ...rest, conditions: sorted });
}
