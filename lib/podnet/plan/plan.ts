import { Address, type DualStack, Prefix } from "../../inet/mod.ts";
import { LINK_LOCAL_GATEWAY } from "../../names/mod.ts";
import {
  type Ipv4Conf,
  LOCAL_TABLE,
  PROTOCOL_BOOT,
  PROTOCOL_KERNEL,
} from "../../netlink/mod.ts";
import { formatAlias, type LinkIdentity } from "../base/alias.ts";
import { linkLocalOf } from "../base/mac.ts";
import { type PodSources, SOURCE_SETTINGS } from "../base/sources.ts";

/**
 * What a pod has as its gateway. `link-local`: the same link-local address on
 * every host veth. `node-address`: the node's own address, copied to every
 * host veth, as upstream Coil does since 2.0.13; a family in which the node has
 * no address falls back to `link-local`.
 */
export type GatewayMode = "link-local" | "node-address";

/**
 * Queues of either end. A veth is given one per possible CPU and uses one until
 * set otherwise with ethtool, but pays for all: creating a pair took 250 µs
 * with 2, 130 µs with 1 and 720 µs with 64.
 */
const QUEUES = 1;

const DEFAULT_GATEWAY: Address = Address.parse(LINK_LOCAL_GATEWAY);

/** All that decides how a pod is connected. */
export interface PodPlanInput extends LinkIdentity {
  /** The pod's addresses: IPv4, IPv6 or one of each. */
  readonly addresses: DualStack<Address>;
  /** The node's addresses, as far as it has any. */
  readonly nodeAddresses: DualStack<Address>;
  /** Name of the host end of the veth pair. */
  readonly hostVethName: string;
  /** MAC address of the host end. */
  readonly hostMac: string;
  /** MAC address of the pod's end. */
  readonly podMac: string;
  /** MTU of both ends; 0 leaves it to the kernel. */
  readonly mtu: number;
  /** Route table for pods on the host. */
  readonly tableId: number;
  /** Protocol number on those routes. */
  readonly protocolId: number;
  /** What the pod's default routes lead to. */
  readonly gatewayMode: GatewayMode;
  /** Which sources the host takes from the pod. */
  readonly sources: PodSources;
}

/** The veth pair, made in one go with the pod's end already in the pod. */
export interface VethSpec {
  /** Name of the host's end. */
  readonly name: string;
  /** Link group of the host's end. */
  readonly group: number;
  /** MAC address of the host's end. */
  readonly mac: string;
  /** Name of the pod's end. */
  readonly peerName: string;
  /** MAC address of the pod's end. */
  readonly peerMac: string;
  /** Absent: the kernel's default. */
  readonly mtu?: number;
  /** Transmit and receive queues, of either end. */
  readonly queues: number;
}

/** One change of one end of the veth pair. */
export type Step =
  | {
    readonly kind: "link";
    readonly up?: true;
    readonly alias?: string;
    readonly ipv4Conf?: Ipv4Conf;
    /** No link-local address from the kernel: it would be tentative for a second or two. */
    readonly addressGeneration?: "none";
    /** Its failure does not matter: the kernel may lack IPv6. */
    readonly optional?: true;
  }
  | {
    readonly kind: "address";
    readonly address: Address;
    readonly length: number;
    readonly scope: "global" | "link";
  }
  | {
    readonly kind: "route";
    /** Absent: `unicast`. */
    readonly type?: "local";
    /** Absent: the default route. */
    readonly destination?: Prefix;
    readonly gateway?: Address;
    readonly scope?: "link";
    readonly protocol: number;
    readonly table?: number;
    readonly source?: Address;
  }
  | {
    readonly kind: "neighbour";
    readonly address: Address;
    readonly mac: string;
  }
  /** Makes the kernel act on the carrier that came up, now rather than soon. */
  | { readonly kind: "settle" };

/** A step that changes the link itself. */
export type LinkStep = Extract<Step, { kind: "link" }>;

export type RouteStep = Extract<Step, { kind: "route" }>;

/**
 * A pod's network as data, in the order in which it is made.
 *
 * The order matters to the very first packets. A veth gets its carrier when
 * its second end is set up. That end can send at once, the first one only when
 * a worker of the kernel got round to it, and before that it drops what it
 * sends and forgets its neighbours. So the host's end goes up first, the pod's
 * second, and the host's end is asked to settle last.
 *
 * A new IPv6 address becomes one that accepts packets, and joins its multicast
 * group, when another worker got round to it: mostly after a fraction of a
 * millisecond, but many of them on a busy node. Until then what is sent to it
 * is lost, and a lost solicitation is repeated after a second. So the pod's
 * address gets its local route, and each end its neighbours, right here. The
 * kernel's own local route comes beside ours, with a better metric.
 *
 * A daemon may be killed between any two steps. The one that comes after it
 * knows the links that have an alias, so the alias comes before the addresses:
 * a pod never has one that coild does not know.
 */
export interface PodPlan {
  /** What to create. */
  readonly veth: VethSpec;
  /** On the host's end, in the send that makes it: whose it is and what it may send, its addresses. */
  readonly host: readonly Step[];
  /** On the pod's end, in the pod's network namespace. */
  readonly pod: readonly Step[];
  /** On the host's end, once the pod has its addresses and the pair its carrier. */
  readonly settle: readonly Step[];
}

/**
 * Plans a pod's network. Pure; `renderPlan()` of testing.ts shows it as `ip` commands.
 *
 * @throws {TypeError} when there is no address
 * @throws {LinkNameError} when the identity does not make an alias
 */
export function planPod(input: PodPlanInput): PodPlan {
  const { ipv4, ipv6 } = input.addresses;
  if (ipv4 === undefined && ipv6 === undefined) {
    throw new TypeError("Cannot plan a pod's network: it has no address");
  }
  const { group, ipv4Conf } = SOURCE_SETTINGS[input.sources];
  const hostEnd = hostEndSteps(input);
  return {
    veth: {
      name: input.hostVethName,
      group,
      mac: input.hostMac,
      peerName: input.ifname,
      peerMac: input.podMac,
      queues: QUEUES,
      ...(input.mtu === 0 ? {} : { mtu: input.mtu }),
    },
    host: [
      ...raiseSteps(input),
      { kind: "link", alias: formatAlias(input), ipv4Conf },
      ...hostEnd.filter(isAddress),
    ],
    pod: [
      ...raiseSteps(input),
      ...(ipv4 === undefined ? [] : podIpv4(input, ipv4)),
      ...(ipv6 === undefined ? [] : podIpv6(input, ipv6)),
    ],
    settle: [
      ...hostEnd.filter((step) => !isAddress(step)),
      { kind: "settle" },
    ],
  };
}

/** Routes come after the pod's addresses, which they lead to; neighbours too: a link without a carrier drops what it sends, and forgets them with that. */
function isAddress({ kind }: Step): boolean {
  return kind === "address";
}

/** Input for the plan of the host's end. */
export interface HostEndInput extends
  Pick<
    PodPlanInput,
    | "addresses"
    | "nodeAddresses"
    | "hostMac"
    | "tableId"
    | "protocolId"
    | "gatewayMode"
  > {
  /** Where it is not known, what depends on it is left out: the pod's neighbour entries, and the route to its link-local address. */
  readonly podMac?: string;
}

/** What the host's end should have: ADD makes it, upkeep looks for it. */
export function hostEndSteps(input: HostEndInput): Step[] {
  const { ipv4, ipv6 } = input.addresses;
  return [
    ...(ipv4 === undefined ? [] : hostIpv4(input, ipv4)),
    ...(ipv6 === undefined ? [] : hostIpv6(input, ipv6)),
  ];
}

/** The route to a pod's address on the host. */
export function hostRoute(
  address: Address,
  options: Pick<
    PodPlanInput,
    "tableId" | "protocolId" | "nodeAddresses" | "gatewayMode"
  >,
): RouteStep {
  // With the node's address on the veth the kernel takes it as the source by
  // itself, and the route stays what upstream writes.
  const source = options.gatewayMode === "link-local"
    ? options.nodeAddresses[address.family]
    : undefined;
  return {
    kind: "route",
    destination: Prefix.host(address),
    ...(address.family === "ipv4" ? { scope: "link" } : {}),
    table: options.tableId,
    protocol: options.protocolId,
    ...(source === undefined ? {} : { source }),
  };
}

/** The pod's IPv4 gateway. */
export function ipv4Gateway(
  input: Pick<PodPlanInput, "gatewayMode" | "nodeAddresses">,
): Address {
  const nodeAddress = input.nodeAddresses.ipv4;
  return input.gatewayMode === "node-address" && nodeAddress !== undefined
    ? nodeAddress
    : DEFAULT_GATEWAY;
}

/** Two messages: the kernel reads the flags first and would generate an address when both are in one. */
export function raiseSteps(
  input: Pick<PodPlanInput, "addresses">,
): LinkStep[] {
  return [
    {
      kind: "link",
      addressGeneration: "none",
      ...(input.addresses.ipv6 === undefined ? { optional: true } : {}),
    },
    { kind: "link", up: true },
  ];
}

/** As `ptp` does: a /32 has no on-link gateway, so a route of scope link comes first. */
function podIpv4(input: PodPlanInput, address: Address): Step[] {
  const gateway = ipv4Gateway(input);
  return [
    { kind: "address", address, length: 32, scope: "global" },
    {
      kind: "route",
      destination: Prefix.host(gateway),
      scope: "link",
      protocol: PROTOCOL_BOOT,
    },
    { kind: "route", gateway, protocol: PROTOCOL_BOOT },
    { kind: "neighbour", address: gateway, mac: input.hostMac },
  ];
}

function podIpv6(input: PodPlanInput, address: Address): Step[] {
  const gateway = linkLocalOf(input.hostMac);
  return [
    linkLocalStep(input.podMac, 64),
    { kind: "address", address, length: 128, scope: "global" },
    {
      kind: "route",
      type: "local",
      destination: Prefix.host(address),
      table: LOCAL_TABLE,
      // No pod's address is read from routes of this protocol.
      protocol: PROTOCOL_KERNEL,
    },
    {
      kind: "route",
      gateway,
      protocol: PROTOCOL_BOOT,
    },
    { kind: "neighbour", address: gateway, mac: input.hostMac },
  ];
}

function hostIpv4(input: HostEndInput, address: Address): Step[] {
  const gateway = ipv4Gateway(input);
  const scope = gateway.isLinkLocal ? "link" : "global";
  return [
    { kind: "address", address: gateway, length: 32, scope },
    hostRoute(address, input),
    ...podNeighbour(address, input),
  ];
}

function podNeighbour(address: Address, { podMac }: HostEndInput): Step[] {
  return podMac === undefined
    ? []
    : [{ kind: "neighbour", address, mac: podMac }];
}

function hostIpv6(input: HostEndInput, address: Address): Step[] {
  const nodeAddress = input.nodeAddresses.ipv6;
  const copied: Step[] =
    input.gatewayMode === "node-address" && nodeAddress !== undefined
      ? [{
        kind: "address",
        address: nodeAddress,
        length: 128,
        scope: "global",
      }]
      : [];
  return [
    ...copied,
    linkLocalStep(input.hostMac, 128),
    ...(input.podMac === undefined ? [] : [
      {
        kind: "route",
        destination: Prefix.host(linkLocalOf(input.podMac)),
        protocol: PROTOCOL_KERNEL,
      } as const,
    ]),
    hostRoute(address, input),
    ...podNeighbour(address, input),
  ];
}

/**
 * On the host it is a /128 and the pod's own link-local address gets a route:
 * for a /64 a forwarding kernel joins the subnet-router anycast address (RFC
 * 4291, section 2.6.1), which keeps a reference to the link, and deleting the
 * link then takes two grace periods instead of one (measured: 31 ms and 15 ms).
 */
function linkLocalStep(mac: string, length: 64 | 128): Step {
  return { kind: "address", address: linkLocalOf(mac), length, scope: "link" };
}
