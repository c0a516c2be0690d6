import { Address, type DualStack, Prefix } from "../inet/mod.ts";
import { LINK_LOCAL_GATEWAY } from "../names/mod.ts";
import { formatAlias, type LinkIdentity } from "./alias.ts";
import { linkLocalOf } from "./mac.ts";

/**
 * What a pod has as its gateway. `link-local`: the same link-local address on
 * every host veth. `node-address`: the node's own address, copied to every
 * host veth, as upstream Coil does since 2.0.13; a family in which the node has
 * no address falls back to `link-local`.
 */
export type GatewayMode = "link-local" | "node-address";

/** RTPROT_BOOT of `<linux/rtnetlink.h>`: what `ip route add` writes. */
export const PROTOCOL_BOOT = 3;

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
  readonly gatewayMode: GatewayMode;
}

/** The veth pair, made in one go with the pod's end already in the pod. */
export interface VethSpec {
  readonly name: string;
  readonly mac: string;
  readonly peerName: string;
  readonly peerMac: string;
  /** Absent: the kernel's default. */
  readonly mtu?: number;
}

/** One change of one end of the veth pair. */
export type Step =
  | {
    readonly kind: "link";
    readonly up?: true;
    readonly alias?: string;
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
    /** Absent: the default route. */
    readonly destination?: Prefix;
    readonly gateway?: Address;
    readonly scope?: "link";
    readonly protocol: number;
    readonly table?: number;
    readonly source?: Address;
  };

/** A route step. */
export type RouteStep = Extract<Step, { kind: "route" }>;

/** A pod's network as data: what to create, then what to set on either end, in this order. */
export interface PodPlan {
  readonly veth: VethSpec;
  /** On the pod's end, in the pod's network namespace. */
  readonly pod: readonly Step[];
  /** On the host's end. */
  readonly host: readonly Step[];
}

/**
 * Plans a pod's network. Pure; see `renderPlan()` for the same as `ip` commands.
 *
 * @throws {TypeError} when there is no address or the identity does not make an alias
 */
export function planPod(input: PodPlanInput): PodPlan {
  const { ipv4, ipv6 } = input.addresses;
  if (ipv4 === undefined && ipv6 === undefined) {
    throw new TypeError("Cannot plan a pod's network: it has no address");
  }
  return {
    veth: {
      name: input.hostVethName,
      mac: input.hostMac,
      peerName: input.ifname,
      peerMac: input.podMac,
      ...(input.mtu === 0 ? {} : { mtu: input.mtu }),
    },
    pod: [
      ...linkSteps(input, {}),
      ...(ipv4 === undefined ? [] : podIpv4(input, ipv4)),
      ...(ipv6 === undefined ? [] : podIpv6(input, ipv6)),
    ],
    host: [
      ...linkSteps(input, { alias: formatAlias(input) }),
      ...(ipv4 === undefined ? [] : hostIpv4(input, ipv4)),
      ...(ipv6 === undefined ? [] : hostIpv6(input, ipv6)),
    ],
  };
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
    : Address.parse(LINK_LOCAL_GATEWAY);
}

/** Two messages: the kernel reads the flags first and would generate an address when both are in one. */
function linkSteps(input: PodPlanInput, extra: { alias?: string }): Step[] {
  return [
    {
      kind: "link",
      addressGeneration: "none",
      ...(input.addresses.ipv6 === undefined ? { optional: true } : {}),
    },
    { kind: "link", up: true, ...extra },
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
  ];
}

function podIpv6(input: PodPlanInput, address: Address): Step[] {
  return [
    linkLocalStep(input.podMac),
    { kind: "address", address, length: 128, scope: "global" },
    {
      kind: "route",
      gateway: linkLocalOf(input.hostMac),
      protocol: PROTOCOL_BOOT,
    },
  ];
}

function hostIpv4(input: PodPlanInput, address: Address): Step[] {
  const gateway = ipv4Gateway(input);
  const scope = gateway.isLinkLocal ? "link" : "global";
  return [
    { kind: "address", address: gateway, length: 32, scope },
    hostRoute(address, input),
  ];
}

function hostIpv6(input: PodPlanInput, address: Address): Step[] {
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
    linkLocalStep(input.hostMac),
    hostRoute(address, input),
  ];
}

function linkLocalStep(mac: string): Step {
  return {
    kind: "address",
    address: linkLocalOf(mac),
    length: 64,
    scope: "link",
  };
}
