import { addressesByFamily } from "../../../lib/ipam/audit/mod.ts";
import {
  egressAnnotationProblem,
  type EgressTranslation,
  isGatewayPod,
  parseEgressAnnotations,
  withDefaultEgresses,
} from "../../../lib/api/mod.ts";
import {
  type ClientGateway,
  type ClientPlan,
  type EgressLookup,
  egressRefsOf,
  type GatewaySelection,
  planClient,
  selectGateways,
  type WayOut,
  wayOut,
} from "../../../lib/egress/mod.ts";
import type { Address, Family } from "../../../lib/inet/mod.ts";
import type { V1Pod } from "../../../lib/kube/mod.ts";
import { FOU_PORT, nameText } from "../../../lib/names/mod.ts";

/** How a pod's packets to an address leave. */
export interface WayReport {
  /** `namespace/name` of the pod. */
  readonly pod: string;
  readonly to: string;
  /** `egress`: through a gateway. `node`: as the node's own routes say. `refused`: not at all. */
  readonly kind: "egress" | "node" | "refused";
  /** The same in a sentence. */
  readonly summary: string;
  /** `namespace/name` of the Egress, and its destination that has the address. */
  readonly egress?: string;
  readonly destination?: string;
  /** Pods of the Egress that serve: their addresses. */
  readonly gateways?: readonly string[];
  /** What a user may have expected to happen, and does not. */
  readonly remarks: readonly string[];
}

export interface WayOptions {
  readonly lookup: EgressLookup;
  /** The Egresses that pods of the namespace use by default, as annotations. */
  readonly defaults?: Readonly<Record<string, string>> | undefined;
}

/** Finds a pod's way to an address, with coild's own planner. Pure. */
export function explainWay(
  pod: V1Pod,
  to: Address,
  { lookup, defaults }: WayOptions,
): WayReport {
  const { metadata, spec } = pod;
  const annotations = withDefaultEgresses(pod, defaults);
  const common = {
    pod: nameText({ namespace: "", name: "", ...metadata }),
    to: to.toString(),
  };
  const node = `the routes of Node ${spec?.nodeName ?? "(none yet)"}`;
  const unplanned = unplannedWay(pod, to, { annotations, node });
  if (unplanned !== undefined) return { ...common, ...unplanned, remarks: [] };
  const selection = selectGateways(egressRefsOf(annotations), lookup);
  const plan = planClient({
    addresses: addressesByFamily(pod),
    ifname: "eth0",
    mtu: 0,
    port: FOU_PORT,
    gateways: selection.gateways,
    originatingOnly: false,
  });
  const way = wayOut(plan, to);
  const text = wayText(way, { selection, node });
  const own = egressRefsOf(metadata?.annotations).map(nameText);
  const isDefault = text.egress !== undefined && !own.includes(text.egress);
  return {
    ...common,
    ...text,
    remarks: [
      ...isDefault
        ? [`Namespace ${metadata?.namespace} names the Egress for its pods`]
        : [],
      ...translations(text.egress, { selection, lookup })
        .filter(({ address }) => text.gateways?.includes(address))
        .map(({ address, seenAs }) =>
          `The node of gateway ${address} translates its address: packets were seen to leave as ${seenAs}`
        ),
      ...remarksOf(to, way, { selection, plan }),
    ],
  };
}

const NAMES: Readonly<Record<Family, string>> = { ipv4: "IPv4", ipv6: "IPv6" };

/** Undefined when the pod's Egresses decide. */
function unplannedWay(
  pod: V1Pod,
  to: Address,
  { annotations, node }: {
    readonly annotations: Readonly<Record<string, string>> | undefined;
    readonly node: string;
  },
): Pick<WayReport, "kind" | "summary"> | undefined {
  if (pod.spec?.hostNetwork === true) {
    const summary = `by ${node}: the pod is on the host network`;
    return { kind: "node", summary };
  }
  if (isGatewayPod(pod)) {
    const summary =
      `by ${node}: the pod is a gateway of an Egress, and a gateway cannot be a client`;
    return { kind: "node", summary };
  }
  const problem = egressAnnotationProblem(parseEgressAnnotations(annotations));
  if (problem !== undefined) {
    return { kind: "refused", summary: `no network is set up: ${problem}` };
  }
  if (addressesByFamily(pod)[to.family] !== undefined) return undefined;
  const summary = `refused: the pod has no ${NAMES[to.family]} address`;
  return { kind: "refused", summary };
}

function wayText(
  way: WayOut,
  { selection, node }: {
    readonly selection: GatewaySelection;
    readonly node: string;
  },
): Omit<WayReport, "pod" | "to" | "remarks"> {
  switch (way.kind) {
    case "egress": {
      const { gateway: egress, remote } = way.tunnel;
      const destination = way.destination.toString();
      const gateways = selection.targets
        .filter((target) => nameText(target.egress) === egress)
        .map(({ address }) => address.toString());
      return {
        kind: "egress",
        summary:
          `through Egress ${egress}, whose destination ${destination} has it, to one of its gateways ${
            gateways.join(", ")
          } (Service ${remote})`,
        egress,
        destination,
        gateways,
      };
    }
    case "refused": {
      const destination = way.destination.toString();
      const names = selection.gateways
        .filter(({ destinations, failurePolicy }) =>
          failurePolicy === "Closed" &&
          destinations.some((each) => each.equals(way.destination))
        ).map(({ name }) => name);
      return {
        kind: "refused",
        summary: `refused: destination ${destination} of Egress ${
          names.join(" and ")
        } has it, which has no ready gateway and failurePolicy Closed`,
        egress: names[0] ?? "",
        destination,
      };
    }
    case "main":
      return {
        kind: "node",
        summary: way.network === undefined
          ? `by ${node}: no Egress of the pod takes it`
          : `by ${node}: what is in ${way.network} stays in the cluster unless an Egress names a part of it`,
      };
  }
}

/** How nodes translate the sources of an Egress' gateways, as these say. */
function translations(
  egress: string | undefined,
  { selection, lookup }: {
    readonly selection: GatewaySelection;
    readonly lookup: EgressLookup;
  },
): readonly EgressTranslation[] {
  const target = selection.targets
    .find((each) => nameText(each.egress) === egress);
  if (target === undefined) return [];
  const { gateways = [] } = lookup(target.egress).egress?.status ?? {};
  return gateways.flatMap(({ translated = [] }) => translated);
}

function remarksOf(
  to: Address,
  way: WayOut,
  { selection, plan }: {
    readonly selection: GatewaySelection;
    readonly plan: ClientPlan;
  },
): string[] {
  const { gateways, missing, invalid } = selection;
  const isOpen = (gateway: ClientGateway) =>
    gateway.failurePolicy === "Open" &&
    !gateway.available.includes(to.family) &&
    gateway.destinations.some((each) => each.contains(to));
  return [
    ...missing.map(({ kind, ...ref }) =>
      `${kind} ${nameText(ref)} does not exist`
    ),
    ...way.kind === "refused"
      ? []
      : gateways.filter(isOpen).map(({ name }) =>
        `Egress ${name} has the address, but no ready gateway, and failurePolicy Open`
      ),
    ...plan.shadowed.filter(({ destination }) => destination.contains(to))
      .map(({ gateway, destination, by }) =>
        `Egress ${gateway} has ${destination} too; ${by} comes first`
      ),
    ...plan.skipped.filter(({ destination }) => destination.contains(to))
      .map(({ gateway, destination, lacking }) =>
        `Egress ${gateway} has ${destination}, but its ${lacking} has no such address`
      ),
    ...invalid.map(({ gateway, text }) =>
      `Egress ${gateway}: destination "${text}" is not a valid CIDR`
    ),
  ];
}
