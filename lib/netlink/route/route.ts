import type { Address, Family, Prefix } from "../../inet/mod.ts";
import { align } from "../message/constants.ts";
import { familyOf, parseIp, parsePrefix } from "../message/family.ts";
import {
  Attributes,
  type Message,
  Payload,
} from "../message/message_reader.ts";
import { type Scope, scopeOf } from "../connection/scope.ts";

/** Attributes of `<linux/rtnetlink.h>`. */
export const RTA_DST = 1;
export const RTA_OIF = 4;
export const RTA_GATEWAY = 5;
export const RTA_PRIORITY = 6;
export const RTA_PREFSRC = 7;
export const RTA_METRICS = 8;
const RTA_MULTIPATH = 9;
const RTA_CACHEINFO = 12;
export const RTA_TABLE = 15;
export const RTA_EXPIRES = 23;
/** struct rtnexthop: its own length, flags, weight, link; attributes follow. */
const RTNEXTHOP_SIZE = 8;
/** struct rtmsg. */
export const RTMSG_SIZE = 12;
/** struct rta_cacheinfo: the time that is left comes third, in ticks of which a second has 100 (USER_HZ). */
const EXPIRES_OFFSET = 8;
const TICKS_PER_S = 100;
/** RTNH_F_ONLINK of `<linux/rtnetlink.h>`. */
export const RTNH_F_ONLINK = 4;
/** RT_TABLE_MAIN of `<linux/rtnetlink.h>`: the number of the main table. */
export const MAIN_TABLE = 254;
/** RT_TABLE_LOCAL: the kernel's routes to the host's own addresses. */
export const LOCAL_TABLE = 255;
/** IP6_RT_PRIO_USER of `<net/ip6_route.h>`: the metric of IPv6 routes that are given none. */
export const IPV6_METRIC = 1024;
/** RTPROT_KERNEL of `<linux/rtnetlink.h>`: what the kernel writes on routes that come with an address. */
export const PROTOCOL_KERNEL = 2;
/** RTPROT_BOOT, the protocol of `ip route add` without one. */
export const PROTOCOL_BOOT = 3;

/** What happens to a packet, RTN_… of `<linux/rtnetlink.h>`, in the order of their numbers, from 1. */
export const ROUTE_TYPES = [
  "unicast",
  "local",
  "broadcast",
  "anycast",
  "multicast",
  "blackhole",
  "unreachable",
  "prohibit",
  "throw",
] as const;

/** One of them. */
export type RouteType = typeof ROUTE_TYPES[number];

/** One of the ways of a route. */
export interface NextHop {
  /** The index of the link it leaves by. */
  readonly index: number;
  /** Absent when the destination is on the link. */
  readonly gateway?: Address | undefined;
  /** As of a {@linkcode Route}. */
  readonly onLink?: boolean | undefined;
}

/** A route as the kernel describes it. */
export interface Route {
  /** The family of everything in the route. */
  readonly family: Family;
  /** Undefined for the default route. */
  readonly destination: Prefix | undefined;
  /** The next hop; absent when the destination is on the link. */
  readonly gateway?: Address | undefined;
  /** Whether the gateway is taken to be on the link without a route that says so; absent when not. */
  readonly onLink?: boolean | undefined;
  /** The index of the link it leaves by. */
  readonly index?: number | undefined;
  readonly table: number;
  /** Who made it. */
  readonly protocol: number;
  /** How far the destination is. */
  readonly scope: Scope | number;
  /** Absent for 0. IPv6 has 1024 where none was given. */
  readonly metric?: number | undefined;
  /** The source address of packets that have none yet. */
  readonly source?: Address | undefined;
  /** In how many seconds the kernel removes it; absent for one that stays. */
  readonly expiresS?: number | undefined;
  /** MTU, hop limit and the like, in the kernel's bytes (RTA_METRICS); absent where it has none. */
  readonly metrics?: Uint8Array | undefined;
  /** What becomes of a packet. */
  readonly type: RouteType | number;
  /** Several ways, in place of `gateway` and `index`. */
  readonly hops?: readonly NextHop[];
}

/**
 * Reads an RTM_NEWROUTE; undefined when it is not of IP.
 *
 * @throws {SyntaxError} when the message is malformed
 */
export function parseRoute(message: Message): Route | undefined {
  const { payload } = message;
  const attributes = payload.attributes(RTMSG_SIZE);
  const family = familyOf(payload.u8(0));
  if (family === undefined) return undefined;
  const length = payload.u8(1);
  const type = payload.u8(7);
  return {
    family,
    // Default routes come without an address; should one come with it, the same is meant.
    destination: length === 0
      ? undefined
      : parsePrefix(attributes.bytes(RTA_DST), { family, length }),
    gateway: parseIp(attributes.bytes(RTA_GATEWAY), family),
    ...onLinkOf(payload.u32(8)),
    index: attributes.u32(RTA_OIF),
    table: attributes.u32(RTA_TABLE) ?? payload.u8(4),
    protocol: payload.u8(5),
    scope: scopeOf(payload.u8(6)),
    metric: attributes.u32(RTA_PRIORITY),
    source: parseIp(attributes.bytes(RTA_PREFSRC), family),
    type: ROUTE_TYPES[type - 1] ?? type,
    ...expiryOf(attributes.bytes(RTA_CACHEINFO)),
    ...metricsOf(attributes.bytes(RTA_METRICS)),
    ...hopsOf(attributes.bytes(RTA_MULTIPATH), family),
  };
}

/** RTN_LOCAL to RTN_MULTICAST of `<linux/rtnetlink.h>`: local, broadcast, anycast, multicast. */
const FIRST_INWARD_TYPE = 2;
const LAST_INWARD_TYPE = 5;

/** Whether the route of an RTM_NEWROUTE is none to the namespace's own addresses, nor to a broadcast or multicast one. */
export function leadsOut({ payload }: Message): boolean {
  const type = payload.u8(7);
  return type < FIRST_INWARD_TYPE || type > LAST_INWARD_TYPE;
}

function onLinkOf(flags: number): Pick<Route, "onLink"> {
  return (flags & RTNH_F_ONLINK) === 0 ? {} : { onLink: true };
}

function expiryOf(bytes: Uint8Array | undefined): Pick<Route, "expiresS"> {
  const ticks = bytes === undefined
    ? 0
    : new Payload(bytes).i32(EXPIRES_OFFSET);
  return ticks <= 0 ? {} : { expiresS: Math.ceil(ticks / TICKS_PER_S) };
}

/** A copy: the buffer is used again. */
function metricsOf(bytes: Uint8Array | undefined): Pick<Route, "metrics"> {
  return bytes === undefined ? {} : { metrics: bytes.slice() };
}

function hopsOf(
  bytes: Uint8Array | undefined,
  family: Family,
): Pick<Route, "hops"> {
  if (bytes === undefined) return {};
  const hops: NextHop[] = [];
  for (let at = 0; at < bytes.byteLength;) {
    const hop = new Payload(bytes.subarray(at));
    const index = hop.i32(4);
    const length = hop.u16(0);
    if (length < RTNEXTHOP_SIZE) {
      throw new SyntaxError(`Cannot parse next hop: length is ${length}`);
    }
    const attributes = new Attributes(
      bytes.subarray(at + RTNEXTHOP_SIZE, at + length),
    );
    const gateway = parseIp(attributes.bytes(RTA_GATEWAY), family);
    hops.push({ index, gateway, ...onLinkOf(hop.u8(2)) });
    at += align(length);
  }
  return { hops };
}

/**
 * Whether a route may be one that was added with this protocol. IPv6 keeps
 * `boot` (3) where 0 was given (ip6_route_info_create() in net/ipv6/route.c),
 * so with 0 this holds only in tables where no other program has routes.
 */
export function wasAddedBy(
  route: Pick<Route, "family" | "protocol">,
  protocol: number,
): boolean {
  const isIpv6Unset = protocol === 0 && route.family === "ipv6";
  return route.protocol === (isIpv6Unset ? PROTOCOL_BOOT : protocol);
}
