import type { AnnounceTarget } from "../../announce/mod.ts";
import {
  type Egress,
  egressAnnotationProblem,
  isEgressName,
  MAX_EGRESSES_OF_POD,
  parseEgressAnnotations,
} from "../../api/mod.ts";
import {
  Address,
  distinct,
  type DualStack,
  FAMILIES,
  type Family,
  Prefix,
} from "../../inet/mod.ts";
import type {
  Annotations,
  V1EndpointSlice,
  V1Service,
} from "../../kube/mod.ts";
import { type NamespacedName, nameText } from "../../names/mod.ts";
import { clusterIpsOf, drainingGateways } from "./objects.ts";
import type { ClientGateway } from "../plan/request.ts";

/** What the API server has of an Egress; what is missing is undefined. */
export interface EgressFacts {
  readonly egress: Egress | undefined;
  readonly service: V1Service | undefined;
  readonly slices: readonly V1EndpointSlice[];
}

/** Finds an Egress and what belongs to it. */
export type EgressLookup = (ref: NamespacedName) => EgressFacts;

/** Where clients are. */
export interface Place {
  /** The Node's name. */
  readonly node: string;
  /** Its label `topology.kubernetes.io/zone`; undefined where it has none. */
  readonly zone: string | undefined;
}

/** Whether an address that an endpoint has belongs to another pod than the endpoint's by now. */
export type IsTaken = (address: Address, uid: string) => boolean;

/** An object that an annotation leads to and that does not exist. */
export interface MissingObject extends NamespacedName {
  readonly kind: "Egress" | "Service";
}

/** A destination that is not a valid CIDR. */
export interface InvalidDestination {
  readonly gateway: string;
  readonly text: string;
}

/** The gateways that a pod's annotations ask for. */
export interface GatewaySelection {
  /** By namespace and name. An Egress without Service is among them, as unavailable; one that does not exist is not. */
  readonly gateways: readonly ClientGateway[];
  readonly missing: readonly MissingObject[];
  readonly invalid: readonly InvalidDestination[];
  /** The gateway pods that a new client is announced to. */
  readonly targets: readonly AnnounceTarget[];
}

/**
 * The Egresses that a pod's annotations name, each once, by namespace and
 * name. Names that no Egress can have are left out, and so is what is above
 * the limit; see {@linkcode problemOf}.
 */
export function egressRefsOf(
  annotations: Annotations | undefined,
): NamespacedName[] {
  return parseEgressAnnotations(annotations).flatMap(({ namespace, names }) =>
    names.filter(isEgressName).map((name) => ({ namespace, name }))
  ).slice(0, MAX_EGRESSES_OF_POD);
}

/** Whether a pod's annotations name any Egress, also by an invalid name. */
export function namesEgress(annotations: Annotations | undefined): boolean {
  return parseEgressAnnotations(annotations).length > 0;
}

/** Why no client can be made by a pod's annotations. */
export function problemOf(
  annotations: Annotations | undefined,
): string | undefined {
  return egressAnnotationProblem(parseEgressAnnotations(annotations));
}

/** What a selection depends on, beside what the API server has. */
export interface SelectionOptions {
  /** By default none is taken. */
  readonly isTaken?: IsTaken;
  /** By default no gateway is near. */
  readonly place?: Place;
}

/**
 * Makes gateways of the Egresses that are asked for, from what the API server
 * has of them. Endpoints whose addresses are taken count as gone. Pure.
 */
export function selectGateways(
  refs: readonly NamespacedName[],
  lookup: EgressLookup,
  { isTaken = () => false, place }: SelectionOptions = {},
): GatewaySelection {
  const gateways: ClientGateway[] = [];
  const missing: MissingObject[] = [];
  const invalid: InvalidDestination[] = [];
  const targets: AnnounceTarget[] = [];
  for (const ref of refs) {
    const { egress, service, slices } = lookup(ref);
    if (egress === undefined) {
      missing.push({ kind: "Egress", ...ref });
      continue;
    }
    if (service === undefined) missing.push({ kind: "Service", ...ref });
    const gateway = nameText(ref);
    for (const text of egress.spec.destinations) {
      if (Prefix.tryParse(text) === undefined) invalid.push({ gateway, text });
    }
    const draining = new Set(drainingGateways(egress));
    const endpoints = slices.flatMap((slice) => endpointsOf(slice, draining))
      .filter(({ address, uid }) =>
        uid === undefined || !isTaken(address, uid)
      );
    gateways.push(gatewayOf(gateway, { egress, service, endpoints, place }));
    if (service === undefined) continue;
    for (const address of servingPods(service, endpoints)) {
      targets.push({ egress: ref, address });
    }
  }
  return { gateways, missing, invalid, targets };
}

function gatewayOf(
  name: string,
  { egress, service, endpoints, place }: Pick<EgressFacts, "service"> & {
    readonly egress: Egress;
    readonly endpoints: readonly Endpoint[];
    readonly place: Place | undefined;
  },
): ClientGateway {
  const { destinations, failurePolicy, fouSourcePortAuto, lostConnections } =
    egress.spec;
  const isDirect = egress.spec.gatewaySelection === "Direct";
  return {
    name,
    service: service === undefined ? {} : addressesOf(service),
    destinations: destinations.flatMap((text) => Prefix.tryParse(text) ?? []),
    sourcePortAuto: fouSourcePortAuto ?? false,
    senders: distinct(endpoints.map(({ address }) => address)),
    ...(isDirect && {
      uids: uidsOf(endpoints),
      direct: chosenAddresses(endpoints),
      near: nearAddresses(endpoints, place),
    }),
    ...(lostConnections === "Keep" && { keepsLost: true }),
    available: service === undefined ? [] : availableFamilies(endpoints),
    failurePolicy: failurePolicy ?? "Closed",
  };
}

/** A headless Service has "None" in place of addresses. */
function addressesOf(service: V1Service): DualStack<Address> {
  const addresses: Partial<Record<Family, Address>> = {};
  for (const text of clusterIpsOf(service)) {
    const address = Address.tryParse(text);
    if (address !== undefined) addresses[address.family] ??= address;
  }
  return addresses;
}

interface Endpoint {
  readonly address: Address;
  readonly pod: string;
  readonly uid: string | undefined;
  readonly ready: boolean;
  readonly serving: boolean;
  readonly hints: Hints;
}

type Hints = Readonly<
  Partial<Record<"forNodes" | "forZones", readonly { name: string }[]>>
>;

function endpointsOf(
  slice: V1EndpointSlice,
  draining: ReadonlySet<string>,
): Endpoint[] {
  return (slice.endpoints ?? []).flatMap((endpoint) => {
    const { ready, serving } = endpoint.conditions ?? {};
    // Null means unknown, which counts as ready (discovery.k8s.io/v1).
    const isReady = ready ?? true;
    const isServing = serving ?? isReady;
    return endpoint.addresses.flatMap((text) => {
      const address = Address.tryParse(text);
      if (address === undefined) return [];
      const pod = endpoint.targetRef?.name ?? address.toString();
      return [{
        address,
        pod,
        uid: endpoint.targetRef?.uid,
        ready: isReady && !draining.has(pod),
        serving: isServing,
        hints: endpoint.hints ?? {},
      }];
    });
  });
}

/** The UIDs of gateways by address. Where another pod has the address of a gateway that ends, the gateway that is ready counts. */
function uidsOf(endpoints: readonly Endpoint[]): ReadonlyMap<string, string> {
  const ordered = endpoints.toSorted((a, b) =>
    Number(a.ready) - Number(b.ready)
  );
  return new Map(
    ordered.flatMap(({ address, uid }) =>
      uid === undefined ? [] : [[address.toString(), uid]]
    ),
  );
}

function availableFamilies(endpoints: readonly Endpoint[]): Family[] {
  const chosen = chosenAddresses(endpoints);
  return FAMILIES.filter((family) =>
    chosen.some((address) => address.family === family)
  );
}

/**
 * As kube-proxy sees it: ready pods take new flows, and without any, those
 * that are ending and still serve do (KEP-1669).
 */
function chosenAddresses(endpoints: readonly Endpoint[]): Address[] {
  return FAMILIES.flatMap((family) => {
    const own = endpoints.filter(({ address }) => address.family === family);
    const ready = own.filter(({ ready }) => ready);
    const chosen = ready.length > 0 ? ready : own.filter((e) => e.serving);
    return distinct(chosen.map(({ address }) => address));
  });
}

/**
 * The endpoints that hints of their slices have for this node, or, without
 * such, for its zone: the endpoint slice controller writes hints by the
 * Service's `trafficDistribution`. kube-proxy ignores those of a Service where a
 * ready endpoint has none, e.g. on a node without a zone; here it is not near.
 */
function nearAddresses(
  endpoints: readonly Endpoint[],
  place: Place | undefined,
): ReadonlySet<string> {
  const hintedFor = (
    kind: keyof Hints,
    name: string | undefined,
  ) =>
    endpoints.filter(({ hints }) =>
      name !== undefined && hints[kind]?.some((each) => each.name === name)
    );
  const ofNode = hintedFor("forNodes", place?.node);
  const near = ofNode.length > 0 ? ofNode : hintedFor("forZones", place?.zone);
  return new Set(near.map(({ address }) => address.toString()));
}

/** One address of each pod that serves, of the cluster's primary family where it has one. */
function servingPods(
  service: V1Service,
  endpoints: readonly Endpoint[],
): Address[] {
  const [primary] = clusterIpsOf(service).map((text) => Address.tryParse(text));
  const pods = new Map<string, Address>();
  for (const { address, pod, ready, serving } of endpoints) {
    if (!ready && !serving) continue;
    const isBetter = address.family === primary?.family;
    if (!pods.has(pod) || isBetter) pods.set(pod, address);
  }
  return [...pods.values()];
}
