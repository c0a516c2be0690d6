import type { Address, Family } from "../../inet/mod.ts";
import { parseIp } from "../message/family.ts";
import type { Attributes } from "../message/message_reader.ts";
import type { MessageWriter } from "../message/message_writer.ts";

/** Attributes of `<linux/if_tunnel.h>`, inside IFLA_INFO_DATA. */
const IFLA_IPTUN_LOCAL = 2;
const IFLA_IPTUN_REMOTE = 3;
const IFLA_IPTUN_TTL = 4;
const IFLA_IPTUN_FLAGS = 8;
const IFLA_IPTUN_PROTO = 9;
const IFLA_IPTUN_PMTUDISC = 10;
const IFLA_IPTUN_ENCAP_TYPE = 15;
const IFLA_IPTUN_ENCAP_FLAGS = 16;
const IFLA_IPTUN_ENCAP_SPORT = 17;
const IFLA_IPTUN_ENCAP_DPORT = 18;
const IFLA_IPTUN_COLLECT_METADATA = 19;
/** `enum tunnel_encap_types` and TUNNEL_ENCAP_FLAG_CSUM… of `<linux/if_tunnel.h>`. */
const TUNNEL_ENCAP_NONE = 0;
const TUNNEL_ENCAP_FOU = 1;
const TUNNEL_ENCAP_FLAG_CSUM = 1;
const TUNNEL_ENCAP_FLAG_CSUM6 = 2;
/** IP6_TNL_F_IGN_ENCAP_LIMIT of `<linux/ip6_tunnel.h>`: no option that limits nesting. */
const IP6_TNL_F_IGN_ENCAP_LIMIT = 1;

/** Differences between the two kinds of tunnels. */
interface Kind {
  /** The family of the outer packet. */
  readonly family: Family;
  /** What is inside, IPPROTO_IPIP or IPPROTO_IPV6. */
  readonly protocol: number;
  /** Which flag asks for the checksum of the outer UDP datagram. */
  readonly checksumFlags: number;
  /** Attributes that only this kind has. */
  writeOwn(writer: MessageWriter): void;
}

const KINDS: Readonly<Record<TunnelSpec["kind"], Kind>> = {
  ipip: {
    family: "ipv4",
    protocol: 4,
    checksumFlags: TUNNEL_ENCAP_FLAG_CSUM,
    writeOwn: (writer) => writer.attributeU8(IFLA_IPTUN_PMTUDISC, 1),
  },
  ip6tnl: {
    family: "ipv6",
    protocol: 41,
    // fou6_build_header() looks at CSUM6 alone; `ip link` shows both.
    checksumFlags: TUNNEL_ENCAP_FLAG_CSUM | TUNNEL_ENCAP_FLAG_CSUM6,
    writeOwn: (writer) =>
      writer.attributeU32(IFLA_IPTUN_FLAGS, IP6_TNL_F_IGN_ENCAP_LIMIT),
  },
};

/** Foo over UDP: what a tunnel puts between the outer IP header and the inner packet. */
export interface FouEncap {
  /** `auto` lets the kernel take one by the inner packet's flow, so that flows spread. */
  readonly sourcePort: number | "auto";
  /** Where the other end listens. */
  readonly destinationPort: number;
  /** Whether the outer UDP datagram has a checksum. */
  readonly checksum: boolean;
}

/** A tunnel of IPv4 in IPv4 (`ipip`) or of IPv6 in IPv6 (`ip6tnl`, mode ip6ip6, no encapsulation limit). */
export interface TunnelSpec {
  /** The kind of the link. */
  readonly kind: "ipip" | "ip6tnl";
  /** The outer source address; any unless given. */
  readonly local?: Address | undefined;
  /**
   * The outer destination address. Without it, it is the next hop of the inner
   * packet's route (for a route without a gateway, the inner destination).
   */
  readonly remote?: Address | undefined;
  /** Time to live or hop limit of the outer packet; the inner packet's unless given. */
  readonly ttl?: number | undefined;
  /** The outer packet is UDP when given. */
  readonly encap?: FouEncap | undefined;
  /**
   * Whether one device receives from any sender and takes from each packet's
   * route where it goes to. Nothing else can be given together with it.
   */
  readonly collectMetadata?: boolean | undefined;
}

/**
 * Returns the tunnel when the kernel would take it.
 *
 * @throws {TypeError} for an address of the other family, or more beside `collectMetadata`
 * @throws {RangeError} for a port or ttl that is not one
 */
export function checkTunnel(tunnel: TunnelSpec): TunnelSpec {
  const { kind, local, remote, ttl, encap, collectMetadata } = tunnel;
  const { family } = KINDS[kind];
  for (const address of [local, remote]) {
    if (address !== undefined && address.family !== family) {
      throw new TypeError(
        `Cannot use "${address}" in an ${kind} tunnel: it is ${address.family}`,
      );
    }
  }
  const others = [local, remote, ttl, encap];
  if (collectMetadata === true && others.some((o) => o !== undefined)) {
    throw new TypeError(
      `Cannot use addresses, ttl or encap in an ${kind} tunnel that collects metadata`,
    );
  }
  checkNumber("ttl", ttl ?? 1, 255);
  if (encap === undefined) return tunnel;
  checkNumber("destination port", encap.destinationPort, 0xffff);
  if (encap.sourcePort !== "auto") {
    checkNumber("source port", encap.sourcePort, 0xffff);
  }
  return tunnel;
}

/** Whether two tunnels do the same. */
export function sameTunnel(a: TunnelSpec | undefined, b: TunnelSpec): boolean {
  return a !== undefined && textOf(a) === textOf(b);
}

/** All that makes a difference, in one order. */
function textOf(tunnel: TunnelSpec): string {
  const { kind, local, remote, ttl, encap, collectMetadata = false } = tunnel;
  const { sourcePort, destinationPort, checksum } = encap ?? {};
  return [
    ...[kind, local, remote, ttl, collectMetadata],
    ...[sourcePort, destinationPort, checksum],
  ].join(" ");
}

function checkNumber(what: string, value: number, max: number): void {
  if (!Number.isInteger(value) || value < 1 || value > max) {
    throw new RangeError(
      `Cannot use ${what} ${value} in a tunnel: it must be 1 to ${max}`,
    );
  }
}

/** Writes what goes into IFLA_INFO_DATA: all of it, since a change resets what is missing. */
export function writeTunnel(writer: MessageWriter, tunnel: TunnelSpec): void {
  const { local, remote, ttl, encap, collectMetadata } = tunnel;
  const kind = KINDS[tunnel.kind];
  writer.attributeU8(IFLA_IPTUN_PROTO, kind.protocol);
  if (collectMetadata === true) {
    writer.attributeFlag(IFLA_IPTUN_COLLECT_METADATA);
    return;
  }
  if (local !== undefined) {
    writer.attributeBytes(IFLA_IPTUN_LOCAL, local.toBytes());
  }
  if (remote !== undefined) {
    writer.attributeBytes(IFLA_IPTUN_REMOTE, remote.toBytes());
  }
  if (ttl !== undefined) writer.attributeU8(IFLA_IPTUN_TTL, ttl);
  kind.writeOwn(writer);
  writeEncap(writer, encap, kind);
}

function writeEncap(
  writer: MessageWriter,
  encap: FouEncap | undefined,
  kind: Kind,
): void {
  if (encap === undefined) {
    writer.attributeU16(IFLA_IPTUN_ENCAP_TYPE, TUNNEL_ENCAP_NONE);
    return;
  }
  const { sourcePort, destinationPort, checksum } = encap;
  writer.attributeU16(IFLA_IPTUN_ENCAP_TYPE, TUNNEL_ENCAP_FOU);
  writer.attributeU16(
    IFLA_IPTUN_ENCAP_FLAGS,
    checksum ? kind.checksumFlags : 0,
  );
  writer.attributeU16Be(
    IFLA_IPTUN_ENCAP_SPORT,
    sourcePort === "auto" ? 0 : sourcePort,
  );
  writer.attributeU16Be(IFLA_IPTUN_ENCAP_DPORT, destinationPort);
}

/**
 * Reads IFLA_INFO_DATA; undefined when it is not there.
 *
 * @throws {SyntaxError} when it is malformed
 */
export function parseTunnel(
  kind: TunnelSpec["kind"],
  data: Attributes | undefined,
): TunnelSpec | undefined {
  if (data === undefined) return undefined;
  const { family } = KINDS[kind];
  if (data.flag(IFLA_IPTUN_COLLECT_METADATA)) {
    return { kind, collectMetadata: true };
  }
  const address = (type: number): Address | undefined => {
    const value = parseIp(data.bytes(type), family);
    return value === undefined || value.value === 0n ? undefined : value;
  };
  const ttl = data.u8(IFLA_IPTUN_TTL) ?? 0;
  return {
    kind,
    local: address(IFLA_IPTUN_LOCAL),
    remote: address(IFLA_IPTUN_REMOTE),
    ttl: ttl === 0 ? undefined : ttl,
    encap: parseEncap(data, KINDS[kind]),
  };
}

function parseEncap(data: Attributes, kind: Kind): FouEncap | undefined {
  if (data.u16(IFLA_IPTUN_ENCAP_TYPE) !== TUNNEL_ENCAP_FOU) return undefined;
  const sourcePort = data.u16Be(IFLA_IPTUN_ENCAP_SPORT) ?? 0;
  const flags = data.u16(IFLA_IPTUN_ENCAP_FLAGS) ?? 0;
  return {
    sourcePort: sourcePort === 0 ? "auto" : sourcePort,
    destinationPort: data.u16Be(IFLA_IPTUN_ENCAP_DPORT) ?? 0,
    checksum: (flags & kind.checksumFlags) === kind.checksumFlags,
  };
}
