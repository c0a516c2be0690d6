import { AF_INET, AF_INET6 } from "../message/family.ts";
import { type Message, Payload } from "../message/message_reader.ts";
import type { MessageWriter } from "../message/message_writer.ts";
import { formatMac } from "../message/names.ts";
import { parseTunnel, type TunnelSpec } from "./tunnel.ts";

/** Link attributes of `<linux/if_link.h>`. */
export const IFLA_ADDRESS = 1;
export const IFLA_IFNAME = 3;
export const IFLA_MTU = 4;
export const IFLA_LINK = 5;
export const IFLA_MASTER = 10;
export const IFLA_TXQLEN = 13;
export const IFLA_LINKINFO = 18;
export const IFLA_IFALIAS = 20;
export const IFLA_AF_SPEC = 26;
export const IFLA_GROUP = 27;
export const IFLA_NET_NS_FD = 28;
const IFLA_EXT_MASK = 29;
export const IFLA_NUM_TX_QUEUES = 31;
export const IFLA_NUM_RX_QUEUES = 32;
const IFLA_LINK_NETNSID = 37;
/** Inside IFLA_LINKINFO. */
export const IFLA_INFO_KIND = 1;
export const IFLA_INFO_DATA = 2;
/** Inside IFLA_AF_SPEC, inside AF_INET. */
export const IFLA_INET_CONF = 1;
/** Inside IFLA_INET_CONF: IPV4_DEVCONF_… of `<linux/ip.h>`. */
export const IPV4_DEVCONF_RP_FILTER = 8;
export const IPV4_DEVCONF_ARPFILTER = 13;
/** Inside IFLA_AF_SPEC, inside AF_INET6. */
export const IFLA_INET6_ADDR_GEN_MODE = 8;

/** IFF_UP and IFF_LOWER_UP of `<linux/if.h>`. */
export const IFF_UP = 1;
const IFF_LOWER_UP = 1 << 16;
/** IFALIASZ of `<linux/if.h>` without the terminating NUL. */
export const MAX_ALIAS_BYTES = 255;

/** RTEXT_FILTER_SKIP_STATS of `<linux/rtnetlink.h>`: no code here reads statistics. */
const RTEXT_FILTER_SKIP_STATS = 1 << 3;
/** struct ifinfomsg. */
export const IFINFOMSG_SIZE = 16;

/** Which link is meant. */
export type LinkSelector = { readonly name: string } | {
  readonly index: number;
};

/** How the kernel makes up a link-local IPv6 address, `enum in6_addr_gen_mode`. */
export type Ipv6AddrGenMode = "eui64" | "none" | "stable-privacy" | "random";

/** The modes in the order of their numbers. */
export const ADDR_GEN_MODES: readonly Ipv6AddrGenMode[] = [
  "eui64",
  "none",
  "stable-privacy",
  "random",
];

/** IPv4 settings of a link: `net.ipv4.conf.<link>.…`. The kernel combines each with that of `all`. */
export interface Ipv4Conf {
  /** `rp_filter`: 0 takes packets from any source, 1 those whose source is routed by this link, 2 those whose source has any route. The larger of this and that of `all` counts. */
  readonly rpFilter: number;
  /** `arp_filter`: answer ARP only where the sender's address is routed by this link. One of this and that of `all` is enough. */
  readonly arpFilter: boolean;
}

/** A network interface as the kernel describes it. */
export interface Link {
  /** The number that other objects refer to it by. */
  readonly index: number;
  /** The name within its namespace. */
  readonly name: string;
  /** The largest packet in bytes. */
  readonly mtu: number;
  /** How many packets wait to be sent at most; absent for older kernels. */
  readonly txQueueLength?: number | undefined;
  /** Six bytes in hexadecimal; absent where there is none. */
  readonly mac?: string | undefined;
  /** Free text of the administrator. */
  readonly alias?: string | undefined;
  /** Such as `veth` or `bridge`; absent for physical interfaces and the loopback. */
  readonly kind?: string | undefined;
  /** What a tunnel does; absent for any but IPv4 in IPv4 and IPv6 in IPv6. */
  readonly tunnel?: TunnelSpec | undefined;
  /** Whether it is set up by the administrator. */
  readonly up: boolean;
  /** Whether it has a carrier: of a veth, whether both ends are up. */
  readonly lowerUp: boolean;
  /** The group it can be deleted with; 0 by default. */
  readonly group: number;
  /** The other end of a veth, by its index in the namespace it is in. */
  readonly peerIndex?: number | undefined;
  /** The namespace the other end is in, by this namespace's number for it; absent when it is this one. */
  readonly peerNetnsId?: number | undefined;
  /** The bridge it is a port of. */
  readonly masterIndex?: number | undefined;
  /** How its link-local IPv6 address is made; absent without IPv6. */
  readonly ipv6AddrGenMode?: Ipv6AddrGenMode | undefined;
  /** Its IPv4 settings; absent where it has none. */
  readonly ipv4Conf?: Ipv4Conf | undefined;
  /** The IFF_… flags of `<linux/if.h>`. */
  readonly flags: number;
}

/** Names the link in a description: `"eth0"` or `5`. */
export function linkText(selector: LinkSelector): string {
  return "name" in selector ? `"${selector.name}"` : String(selector.index);
}

/** Writes a `struct ifinfomsg`. */
export function writeLinkHeader(
  writer: MessageWriter,
  header: {
    index?: number | undefined;
    flags?: number;
    change?: number;
  } = {},
): void {
  writer.u8(0); // AF_UNSPEC
  writer.u8(0);
  writer.u16(0);
  writer.u32(header.index ?? 0);
  writer.u32(header.flags ?? 0);
  writer.u32(header.change ?? 0);
}

/** Asks for less than the kernel would send by default. */
export function writeLinkFilter(writer: MessageWriter): void {
  writer.attributeU32(IFLA_EXT_MASK, RTEXT_FILTER_SKIP_STATS);
}

/**
 * Reads an RTM_NEWLINK.
 *
 * @throws {SyntaxError} when the message is malformed
 */
export function parseLink(message: Message): Link {
  const { payload } = message;
  const attributes = payload.attributes(IFINFOMSG_SIZE);
  const flags = payload.u32(8);
  const mac = attributes.bytes(IFLA_ADDRESS);
  const families = attributes.nested(IFLA_AF_SPEC);
  const addrGenMode = families?.nested(AF_INET6)?.u8(IFLA_INET6_ADDR_GEN_MODE);
  const info = attributes.nested(IFLA_LINKINFO);
  const kind = info?.string(IFLA_INFO_KIND);
  return {
    index: payload.i32(4),
    name: attributes.string(IFLA_IFNAME) ?? "",
    mtu: attributes.u32(IFLA_MTU) ?? 0,
    txQueueLength: attributes.u32(IFLA_TXQLEN),
    mac: mac?.byteLength === 6 ? formatMac(mac) : undefined,
    alias: attributes.string(IFLA_IFALIAS),
    kind,
    tunnel: kind === "ipip" || kind === "ip6tnl"
      ? parseTunnel(kind, info?.nested(IFLA_INFO_DATA))
      : undefined,
    up: (flags & IFF_UP) !== 0,
    lowerUp: (flags & IFF_LOWER_UP) !== 0,
    group: attributes.u32(IFLA_GROUP) ?? 0,
    peerIndex: attributes.u32(IFLA_LINK),
    peerNetnsId: attributes.i32(IFLA_LINK_NETNSID),
    masterIndex: attributes.u32(IFLA_MASTER),
    ipv6AddrGenMode: addrGenMode === undefined
      ? undefined
      : ADDR_GEN_MODES[addrGenMode],
    ipv4Conf: parseIpv4Conf(families?.nested(AF_INET)?.bytes(IFLA_INET_CONF)),
    flags,
  };
}

/** The kernel sends all settings as an array of four bytes each; the first has number 1. */
function parseIpv4Conf(bytes: Uint8Array | undefined): Ipv4Conf | undefined {
  if (bytes === undefined) return undefined;
  const payload = new Payload(bytes);
  const value = (number: number) => payload.u32((number - 1) * 4);
  return {
    rpFilter: value(IPV4_DEVCONF_RP_FILTER),
    arpFilter: value(IPV4_DEVCONF_ARPFILTER) !== 0,
  };
}
