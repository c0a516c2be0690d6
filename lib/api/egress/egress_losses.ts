import { compareText } from "../../names/mod.ts";
import type {
  EgressGatewayStatus,
  EgressLoss,
  EgressSuspect,
} from "./egress.ts";

/** A gateway that nodes have lost, or had within the last hour: the reports of all other gateways together. */
export interface LostGateway extends Omit<EgressLoss, "address"> {
  /** Name of the pod. */
  readonly name: string;
  /** Name of its node. */
  readonly node?: string | undefined;
}

/** The most that the status has. */
const MAX_LOST = 64;

/** The gateways that nodes have lost or had lost. What is said about others than these pods is ignored. */
export function gatewayLosses(
  gateways: readonly EgressGatewayStatus[],
): LostGateway[] {
  return gateways.flatMap(({ name, node, addresses = [] }) => {
    const reports = gateways.filter((other) => other.name !== name)
      .flatMap(({ losses = [] }) => lossOf(losses, addresses));
    if (reports.length === 0) return [];
    const names = reports.flatMap(({ nodeNames = [] }) => nodeNames);
    return [{
      name,
      node,
      nodes: sumOf(reports, "nodes"),
      nodeNames: [...new Set(names)].sort(compareText),
      since: sinceOf(reports),
      endedConnections: sumOf(reports, "endedConnections"),
    }];
  });
}

/** A gateway of which nodes lose many packets: the reports of all other gateways together. */
export interface SuspectGateway extends Omit<EgressSuspect, "address"> {
  /** Name of the pod. */
  readonly name: string;
}

/** The gateways of which nodes lose many packets. What is said about others than these pods is ignored. */
export function suspectGateways(
  gateways: readonly EgressGatewayStatus[],
): SuspectGateway[] {
  return gateways.flatMap(({ name, addresses = [] }) => {
    const reports = gateways.filter((other) => other.name !== name)
      .flatMap(({ suspects = [] }) => mostSaid(suspects, addresses));
    if (reports.length === 0) return [];
    const names = reports.flatMap(({ nodeNames }) => nodeNames);
    return [{
      name,
      nodes: reports.reduce((sum, { nodes }) => sum + nodes, 0),
      nodeNames: [...new Set(names)].sort(compareText),
    }];
  });
}

/** Those that are lost now. */
export function lostGateways(
  gateways: readonly EgressGatewayStatus[],
): LostGateway[] {
  return gatewayLosses(gateways).filter(({ nodes }) => nodes > 0)
    .sort((a, b) => compareText(a.name, b.name)).slice(0, MAX_LOST);
}

/** A sentence about a gateway that is lost. */
export function lossText(loss: LostGateway): string {
  const { nodes, nodeNames = [], endedConnections } = loss;
  const who = nodes === 1
    ? `node ${nodeNames.join()}`
    : `${nodes} nodes (${lostToText(loss)})`;
  return `${
    gatewayText(loss)
  } does not answer ${who}: their clients use other gateways, and ${endedConnections} of their connections were ended`;
}

/** Which nodes have lost a gateway, as far as it is known. */
export function lostToText(
  { nodes, nodeNames = [] }: Pick<
    LostGateway | SuspectGateway,
    "nodes" | "nodeNames"
  >,
): string {
  const rest = nodes > nodeNames.length ? ["…"] : [];
  return [...nodeNames, ...rest].join(", ");
}

/** A gateway, and where it is. */
export function gatewayText(
  { name, node }: Pick<LostGateway, "name" | "node">,
): string {
  return node === undefined ? name : `${name} on node ${node}`;
}

/** Of the two addresses of a pod the one that more nodes have lost, with the connections by both. */
function lossOf(
  losses: readonly EgressLoss[],
  addresses: readonly string[],
): EgressLoss[] {
  const own = losses.filter(({ address }) => addresses.includes(address));
  const endedConnections = sumOf(own, "endedConnections");
  return mostSaid(own, addresses)
    .map((loss) => ({ ...loss, endedConnections }));
}

/** Of the two addresses of a pod the one that more nodes name. */
function mostSaid<T extends EgressSuspect | EgressLoss>(
  said: readonly T[],
  addresses: readonly string[],
): T[] {
  return said.filter(({ address }) => addresses.includes(address))
    .toSorted((a, b) => b.nodes - a.nodes).slice(0, 1);
}

/** When the first node lost the gateway that has lost it still; without any, when the last loss began. */
function sinceOf(reports: readonly EgressLoss[]): string {
  const sorted = reports.toSorted((a, b) => compareText(a.since, b.since));
  const oldest = sorted.find(({ nodes }) => nodes > 0);
  return (oldest ?? sorted.at(-1))?.since ?? "";
}

function sumOf(
  reports: readonly EgressLoss[],
  field: "nodes" | "endedConnections",
): number {
  return reports.reduce((sum, report) => sum + report[field], 0);
}
