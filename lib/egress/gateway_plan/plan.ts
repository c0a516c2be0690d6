import {
  type Address,
  type DualStack,
  type Family,
  mapDualStack,
  valuesOf,
} from "../../inet/mod.ts";
import type { TunnelSpec } from "../../netlink/mod.ts";
import {
  COILD_PROTOCOL,
  EGRESS_GATEWAY_PRIORITY,
  EGRESS_WIDE_TABLE,
} from "../../names/mod.ts";
import type { NftTable } from "../../netlink/mod.ts";
import { fouPort } from "../kernel/fou_ports.ts";
import type { ServerFamily, ServerSysctl } from "./family.ts";
import { planServerTable } from "./table.ts";
import { tunnelMtu } from "../kernel/tunnel_mtu.ts";
import { TUNNEL_LINKS, TUNNEL_TTL } from "../kernel/tunnel_names.ts";

/** What a gateway knows about the pod that it runs in. */
export interface ServerRequest {
  /** The pod's own addresses; a family without one is not served. */
  readonly addresses: DualStack<Address>;
  /** The interface that leads both to the clients and outside. */
  readonly ifname: string;
  /** The MTU of that interface in bytes; 0 for what the kernel says. */
  readonly mtu: number;
  /** The UDP port of Foo over UDP. */
  readonly port: number;
  /** Whether the outer source port follows the inner flow, or is the port itself. */
  readonly sourcePortAuto: boolean;
  /** The most connections that one client may have at a time; 0 for any number. Without it, a share of what the kernel has. */
  readonly maxFlowsPerClient?: number | undefined;
  /** The TCP port that the kubelet probes; without it, nothing bounds the connections to it. */
  readonly probePort?: number | undefined;
}

/** A gateway as data: all but its clients. */
export interface ServerPlan {
  /** The interface that leads both to the clients and outside. */
  readonly ifname: string;
  /** The families served. */
  readonly families: DualStack<ServerFamily>;
  /** The table of the clients' routes. */
  readonly routeTable: number;
  /** The protocol number on those routes. */
  readonly routeProtocol: number;
  /** The nft table, its sets still empty, without limits for clients and probes: they depend on the kernel. */
  readonly table: NftTable;
  /** The most connections that one client may have at a time, if configured. */
  readonly maxFlowsPerClient?: number;
  readonly probePort?: number;
}

/** Tunnel devices of gateways. */
export const SERVER_LINK_NAMES: Readonly<Record<Family, string>> = {
  ipv4: "coil_fou4",
  ipv6: "coil_fou6",
};

/** Metric of the route that refuses what comes from outside and is not a client's. */
export const REFUSAL_METRIC = 4096;

const CLIENT_SETS: Readonly<Record<Family, string>> = {
  ipv4: "clients4",
  ipv6: "clients6",
};

/**
 * Plans a gateway. Pure.
 *
 * @throws {TypeError} when there is no address
 * @throws {RangeError} when the port or the MTU is not one
 */
export function planServer(request: ServerRequest): ServerPlan {
  checkRequest(request);
  const { addresses, ifname, port, maxFlowsPerClient, probePort } = request;
  const families = mapDualStack(
    addresses,
    (address, family) => planFamily(request, { address, family }),
  );
  return {
    ifname,
    families,
    routeTable: EGRESS_WIDE_TABLE,
    routeProtocol: COILD_PROTOCOL,
    table: planServerTable({ families: valuesOf(families), ifname, port }),
    ...(maxFlowsPerClient !== undefined && { maxFlowsPerClient }),
    ...(probePort !== undefined && { probePort }),
  };
}

function checkRequest(
  { addresses, port, mtu, maxFlowsPerClient = 0 }: ServerRequest,
): void {
  if (valuesOf(addresses).length === 0) {
    throw new TypeError("Cannot plan an egress gateway: it has no address");
  }
  if (!Number.isInteger(port) || port < 1 || port > 65535) {
    throw new RangeError(
      `Cannot plan an egress gateway: port ${port} is not within 1 and 65535`,
    );
  }
  if (!Number.isInteger(mtu) || mtu < 0) {
    throw new RangeError(
      `Cannot plan an egress gateway: MTU ${mtu} is not a number of bytes`,
    );
  }
  if (!Number.isInteger(maxFlowsPerClient) || maxFlowsPerClient < 0) {
    throw new RangeError(
      `Cannot plan an egress gateway: ${maxFlowsPerClient} is not a number of connections`,
    );
  }
}

function planFamily(
  request: ServerRequest,
  own: { readonly address: Address; readonly family: Family },
): ServerFamily {
  const { address, family } = own;
  const { port, sourcePortAuto, ifname, mtu } = request;
  const name = SERVER_LINK_NAMES[family];
  const tunnel: TunnelSpec = {
    kind: TUNNEL_LINKS[family].kind,
    local: address,
    ttl: TUNNEL_TTL,
    encap: {
      sourcePort: sourcePortAuto ? "auto" : port,
      destinationPort: port,
      checksum: true,
    },
  };
  return {
    family,
    address,
    fouPort: fouPort(family, port),
    link: {
      name,
      tunnel,
      ...(mtu === 0 ? {} : { mtu: tunnelMtu(family, mtu) }),
    },
    rule: {
      family,
      priority: EGRESS_GATEWAY_PRIORITY,
      table: EGRESS_WIDE_TABLE,
      iif: ifname,
    },
    sysctls: SYSCTLS[family](name),
    clientSet: CLIENT_SETS[family],
  };
}

/**
 * The kernel checks a source against the higher of the values of `all` and of
 * the link: 1 would drop all that comes out of the tunnel, since the way back
 * to a client begins at the interface. 2 asks only that there be a way back.
 */
const SYSCTLS: Readonly<
  Record<Family, (link: string) => readonly ServerSysctl[]>
> = {
  ipv4: (link) => [
    { name: "net/ipv4/ip_forward", value: "1", alsoGood: [] },
    { name: "net/ipv4/conf/all/rp_filter", value: "0", alsoGood: ["2"] },
    {
      name: `net/ipv4/conf/${link}/rp_filter`,
      value: "0",
      alsoGood: ["2"],
    },
  ],
  ipv6: () => [
    { name: "net/ipv6/conf/all/forwarding", value: "1", alsoGood: [] },
  ],
};
