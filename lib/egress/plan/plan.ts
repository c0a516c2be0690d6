import {
  type Address,
  distinct,
  type DualStack,
  FAMILIES,
  type Family,
  Prefix,
  valuesOf,
} from "../../inet/mod.ts";
import {
  COILD_PROTOCOL,
  EGRESS_NARROW_TABLE,
  EGRESS_WIDE_TABLE,
} from "../../names/mod.ts";
import type { Rule } from "../../netlink/mod.ts";
import { type GatewayChoice, gatewayMark } from "./choice.ts";
import { assignDestinations, type Owned } from "./destinations.ts";
import type {
  ClientGateway,
  ClientRequest,
  ShadowedDestination,
  SkippedDestination,
} from "./request.ts";
import { clusterPrefixesOf, isInCluster, planRules } from "./rules.ts";
import { tunnelName } from "../kernel/tunnel_names.ts";

/**
 * Metric of the routes that refuse. The kernel prefers the route into the
 * tunnel, which has 0 or, in IPv6, 1024; when that is missing, or its link is,
 * the packet is refused rather than sent out by another way.
 */
export const BACKSTOP_METRIC = 4096;

/** Protocol number on the routes of clients. */
export const CLIENT_PROTOCOL: number = COILD_PROTOCOL;

/** A tunnel to the cluster address of an Egress. */
export interface ClientTunnel {
  /** `<namespace>/<name>` of the Egress. */
  readonly gateway: string;
  /** The family within and without. */
  readonly family: Family;
  /** The link's name. */
  readonly name: string;
  /** The pod's address. */
  readonly local: Address;
  /** The Egress' cluster address. */
  readonly remote: Address;
  /** The UDP source port; `auto`: the kernel chooses one by flow. */
  readonly sourcePort: number | "auto";
}

/**
 * A route of a client: into a tunnel, into an error, into the receiver where
 * nft refuses what is sent, or on to the next rule.
 */
export type ClientRoute =
  & {
    /** The network it leads to. */
    readonly destination: Prefix;
    readonly table: number;
  }
  & (
    | {
      readonly kind: "tunnel";
      readonly tunnel: string;
      /** The pod's address. A tunnel has none, and of several the kernel takes one that a gateway may not know. */
      readonly source: Address;
    }
    | { readonly kind: "unreachable" }
    | { readonly kind: "reject" }
    | { readonly kind: "throw" }
  );

/** A client's network as data. */
export interface ClientPlan {
  /** The pod's interface that the tunnels run over. */
  readonly ifname: string;
  /** Its MTU; 0 for what the kernel says. */
  readonly mtu: number;
  /** The UDP port of the tunnels. */
  readonly port: number;
  /** The families in which the pod is a client. None: nothing of ours is to be there. */
  readonly families: readonly Family[];
  readonly tunnelFamilies: readonly Family[];
  /** The families that have a receiver: in originating-only mode all of them. */
  readonly receiverFamilies: readonly Family[];
  /** The routing rules, in their order. */
  readonly rules: readonly Rule[];
  /** The tunnels, in the order of their Egresses. */
  readonly tunnels: readonly ClientTunnel[];
  /** Where the client itself chooses the gateway. */
  readonly choices: readonly GatewayChoice[];
  /** The routes, no two of which have destination, table and metric in common. */
  readonly routes: readonly ClientRoute[];
  /** Who may send tunnelled packets to the pod. */
  readonly senders: readonly Address[];
  /** Whether answers to connections from outside leave by the way they came. */
  readonly originatingOnly: boolean;
  /** Destinations that another Egress got. */
  readonly shadowed: readonly ShadowedDestination[];
  /** Destinations of a family that pod or Service lacks. */
  readonly skipped: readonly SkippedDestination[];
}

/**
 * Plans what a pod needs to be a client of its Egresses. Pure. A destination
 * of several goes to the first by namespace and name.
 *
 * @throws {RangeError} when there are more of the cluster's networks than rules have room for
 * @throws {TypeError} when two cluster addresses make the same link name
 */
export function planClient(request: ClientRequest): ClientPlan {
  const { owned, shadowed, skipped } = assignDestinations(request);
  const families = FAMILIES.filter((family) =>
    owned.some(({ destination }) => destination.family === family)
  );
  const clusterPrefixes = clusterPrefixesOf(request.clusterPrefixes);
  const tunnels = planTunnels(request, owned);
  const choices = planChoices(request, owned);
  const originatingOnly = request.originatingOnly && families.length > 0;
  const tunnelFamilies = families.filter((family) =>
    tunnels.some((tunnel) => tunnel.family === family)
  );
  return {
    ifname: request.ifname,
    mtu: request.mtu,
    port: request.port,
    families,
    tunnelFamilies,
    receiverFamilies: originatingOnly ? families : tunnelFamilies,
    rules: families.flatMap((family) =>
      planRules(family, clusterPrefixes[family])
    ),
    tunnels,
    choices,
    routes: planRoutes(owned, {
      addresses: request.addresses,
      tunnels,
      clusterPrefixes,
      refusal: originatingOnly ? "reject" : "unreachable",
    }),
    senders: planSenders(request.gateways, tunnelFamilies),
    originatingOnly,
    shadowed,
    skipped,
  };
}

/** A client has elements of sets and maps for each gateway that it chooses from; of more gateways it uses so many. */
export const MAX_CHOSEN = 64;
/** So many that new connections go to are always among them; open ones may go to any. */
const MAX_PUT_FIRST = 32;

/** A gateway that the client chooses from. */
interface Chosen {
  readonly address: Address;
  readonly mark: number;
  readonly isReady: boolean;
  readonly isLost: boolean;
}

const NO_GATEWAYS: ReadonlySet<string> = new Set();

/** The gateways of a family that the client chooses from: of too many some for new connections, and the others that are ready first. */
function chosenFor(
  { direct = [], near = NO_GATEWAYS, senders }: ClientGateway,
  family: Family,
  { avoided = NO_GATEWAYS, lost = NO_GATEWAYS }: Pick<
    ClientRequest,
    "avoided" | "lost"
  >,
): Chosen[] {
  const isOfFamily = (address: Address) => address.family === family;
  const ready = direct.filter(isOfFamily);
  const answering = ready.filter((each) => !avoided.has(each.toString()));
  const preferred = answering.filter((each) => near.has(each.toString()));
  // Rather one far away than one that may be lost, and rather that than none.
  const good = [preferred, answering].find((some) => some.length > 0) ?? ready;
  // In an order in which none moves that is no longer ready.
  const all = distinct([...senders.filter(isOfFamily), ...ready]);
  const first = good.slice(0, MAX_PUT_FIRST);
  const kept = distinct([...first, ...ready, ...all]).slice(0, MAX_CHOSEN);
  return all.filter((address) => kept.some((each) => each.equals(address)))
    .map((address) => ({
      address,
      mark: gatewayMark(address),
      isReady: good.some((each) => each.equals(address)),
      isLost: lost.has(address.toString()),
    }));
}

/** One for each Egress and family, however many destinations it has. */
function planChoices(
  request: ClientRequest,
  owned: readonly Owned[],
): GatewayChoice[] {
  const choices = new Map<string, GatewayChoice>();
  for (const { gateway, remote } of owned) {
    if (gateway.direct === undefined || remote === undefined) continue;
    const tunnel = tunnelName(remote);
    if (choices.has(tunnel)) continue;
    const chosen = chosenFor(gateway, remote.family, request);
    choices.set(tunnel, {
      tunnel,
      ready: marksOf(chosen.filter(({ isReady }) => isReady)),
      all: chosen.map(({ address }) => address)
        .toSorted((a, b) => a.compare(b)),
      lost: marksOf(chosen.filter(({ isLost }) => isLost)),
      keepsLost: gateway.keepsLost ?? false,
    });
  }
  return [...choices.values()];
}

function marksOf(chosen: readonly Chosen[]): number[] {
  return chosen.map(({ mark }) => mark).toSorted((a, b) => a - b);
}

function planTunnels(
  { addresses, port }: ClientRequest,
  owned: readonly Owned[],
): ClientTunnel[] {
  const tunnels = new Map<string, ClientTunnel>();
  for (const { gateway, remote } of owned) {
    if (remote === undefined) continue;
    const local = addresses[remote.family];
    if (local === undefined) continue;
    const name = tunnelName(remote);
    const other = tunnels.get(name);
    if (other !== undefined && !other.remote.equals(remote)) {
      throw new TypeError(
        `Cannot name tunnel to "${remote}" of Egress "${gateway.name}": "${name}" is already the name of the tunnel to "${other.remote}" of "${other.gateway}"`,
      );
    }
    if (other !== undefined) continue;
    tunnels.set(name, {
      gateway: gateway.name,
      family: remote.family,
      name,
      local,
      remote,
      sourcePort: gateway.sourcePortAuto ? "auto" : port,
    });
  }
  return [...tunnels.values()];
}

interface RouteContext {
  readonly addresses: DualStack<Address>;
  readonly tunnels: readonly ClientTunnel[];
  readonly clusterPrefixes: DualStack<readonly Prefix[]>;
  /**
   * How packets are refused. In originating-only mode the kernel has to find a
   * way before nft can send answers another one: without any, it would not
   * even make the packet.
   */
  readonly refusal: "unreachable" | "reject";
}

function planRoutes(
  owned: readonly Owned[],
  context: RouteContext,
): ClientRoute[] {
  const routes = new Map<string, ClientRoute>();
  const put = (route: ClientRoute): void => {
    routes.set(routeKey(route), route);
  };
  for (const { gateway, destination, remote } of owned) {
    const inCluster = isInCluster(destination, context.clusterPrefixes);
    const table = inCluster ? EGRESS_NARROW_TABLE : EGRESS_WIDE_TABLE;
    const isAvailable = gateway.available.includes(destination.family);
    const source = context.addresses[destination.family];
    if (isAvailable && remote !== undefined && source !== undefined) {
      const tunnel = tunnelName(remote);
      put({ destination, table, kind: "tunnel", tunnel, source });
    }
    if (gateway.failurePolicy === "Closed") {
      put({ destination, table, kind: context.refusal });
    }
  }
  outerRoutes(context, [...routes.values()]).forEach(put);
  return [...routes.values()].toSorted(compareRoutes);
}

/**
 * Keeps tunnelled packets out of the tunnels: where a destination holds the
 * gateway's own cluster address, that address goes on to the next rule, which
 * comes to the main table in the end. What is in the cluster's networks never
 * comes to the wide table.
 */
function outerRoutes(
  { tunnels, clusterPrefixes }: RouteContext,
  routes: readonly ClientRoute[],
): ClientRoute[] {
  return tunnels.flatMap(({ remote }) => {
    const tables = isInCluster(remote, clusterPrefixes)
      ? [EGRESS_NARROW_TABLE]
      : [EGRESS_NARROW_TABLE, EGRESS_WIDE_TABLE];
    return tables
      .filter((table) =>
        routes.some((route) =>
          route.table === table && route.destination.contains(remote)
        )
      )
      .map((table): ClientRoute => ({
        destination: Prefix.host(remote),
        table,
        kind: "throw",
      }));
  });
}

/** Identifies a route in its table: two with the same key exclude each other. */
// mutate: any two words.
function routeKey({ destination, table, kind }: ClientRoute): string {
  return `${table} ${destination} ${isRefusal(kind) ? "last" : "first"}`;
}

function compareRoutes(a: ClientRoute, b: ClientRoute): number {
  return a.table - b.table || a.destination.compare(b.destination);
}

/** Whether it is a route that refuses, whose metric is {@linkcode BACKSTOP_METRIC}. */
function isRefusal(kind: ClientRoute["kind"]): boolean {
  return kind === "unreachable" || kind === "reject";
}

/**
 * The gateways' pods; and the Service's addresses: with a fixed source port the
 * node takes answers for those of its own translation and turns them back.
 */
function planSenders(
  gateways: readonly ClientGateway[],
  families: readonly Family[],
): Address[] {
  const senders = gateways.flatMap(({ senders, service }) => [
    ...senders,
    ...valuesOf(service),
  ]).filter(({ family }) => families.includes(family));
  return distinct(senders).toSorted((a, b) => a.compare(b));
}
