import type { Address, Family, Prefix } from "../../inet/mod.ts";
import {
  align,
  NLM_F_APPEND,
  NLM_F_CREATE,
  NLM_F_EXCL,
  NLM_F_REPLACE,
  RTM_DELROUTE,
  RTM_GETROUTE,
  RTM_NEWROUTE,
} from "../message/constants.ts";
import {
  familyNumber,
  familyOf,
  parseIp,
  parsePrefix,
} from "../message/family.ts";
import {
  Attributes,
  type Message,
  Payload,
} from "../message/message_reader.ts";
import type { MessageWriter } from "../message/message_writer.ts";
import type { Request } from "../message/request.ts";
import { type Scope, scopeNumber, scopeOf } from "../connection/scope.ts";

/** Attributes of `<linux/rtnetlink.h>`. */
const RTA_DST = 1;
const RTA_OIF = 4;
const RTA_GATEWAY = 5;
const RTA_PRIORITY = 6;
const RTA_PREFSRC = 7;
const RTA_MULTIPATH = 9;
const RTA_TABLE = 15;
/** struct rtnexthop: its own length, flags, weight, link; attributes follow. */
const RTNEXTHOP_SIZE = 8;
/** struct rtmsg. */
const RTMSG_SIZE = 12;
/** RTNH_F_ONLINK of `<linux/rtnetlink.h>`. */
const RTNH_F_ONLINK = 4;
/** RT_TABLE_MAIN of `<linux/rtnetlink.h>`: the number of the main table. */
export const MAIN_TABLE = 254;
/** RTPROT_KERNEL of `<linux/rtnetlink.h>`: what the kernel writes on routes that come with an address. */
export const PROTOCOL_KERNEL = 2;
/** RTPROT_BOOT, the protocol of `ip route add` without one. */
export const PROTOCOL_BOOT = 3;

/** What happens to a packet, RTN_… of `<linux/rtnetlink.h>`. */
export type RouteType =
  | "unicast"
  | "local"
  | "broadcast"
  | "anycast"
  | "multicast"
  | "blackhole"
  | "unreachable"
  | "prohibit"
  | "throw";

/** The types in the order of their numbers, from 1. */
const ROUTE_TYPES: readonly RouteType[] = [
  "unicast",
  "local",
  "broadcast",
  "anycast",
  "multicast",
  "blackhole",
  "unreachable",
  "prohibit",
  "throw",
];

/** One of the ways of a route. */
export interface NextHop {
  /** The index of the link it leaves by. */
  readonly index: number;
  /** Absent when the destination is on the link. */
  readonly gateway?: Address | undefined;
}

/** A route as the kernel describes it. */
export interface Route {
  /** The family of everything in the route. */
  readonly family: Family;
  /** Undefined for the default route. */
  readonly destination: Prefix | undefined;
  /** The next hop; absent when the destination is on the link. */
  readonly gateway?: Address | undefined;
  /** Whether the gateway is taken to be on the link whatever the routes say; absent when not. */
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
  /** What becomes of a packet. */
  readonly type: RouteType | number;
  /** Several ways, in place of `gateway` and `index`. */
  readonly hops?: readonly NextHop[];
}

/** A route to add, replace or delete. */
export interface RouteTarget {
  /** Absent means the default route. */
  readonly destination?: Prefix | undefined;
  /** The family of everything in the route. */
  readonly family: Family;
  /** The next hop; absent when the destination is on the link. */
  readonly gateway?: Address | undefined;
  /** Whether the gateway is taken to be on the link whatever the routes say. */
  readonly onLink?: boolean | undefined;
  /** The index of the link it leaves by. */
  readonly index?: number | undefined;
  /** The main table unless given. */
  readonly table?: number | undefined;
  /** Who made it; `boot` (3) unless given, any when deleting. */
  readonly protocol?: number | undefined;
  /** Where not given: `link` for unicast IPv4 without a gateway, else `global`; any when deleting. */
  readonly scope?: Scope | number | undefined;
  /** The lowest of several to one destination wins. */
  readonly metric?: number | undefined;
  /** The source address of packets that have none yet. */
  readonly source?: Address | undefined;
  /** `unicast` unless given; any when deleting. */
  readonly type?: RouteType | undefined;
}

/** Adds a route. Refused with EEXIST when the table has one to this destination with this metric. */
export function routeAdd(route: RouteTarget): Request {
  return newRoute("add", NLM_F_EXCL, route);
}

/**
 * Adds a route, in place of the one to the same destination with the same
 * metric if there is one. In IPv6 a route through another link or gateway is replaced too.
 */
export function routeReplace(route: RouteTarget): Request {
  return newRoute("replace", NLM_F_REPLACE, route);
}

/**
 * Adds a route beside those to the same destination with the same metric: in
 * IPv4 before or behind them, in IPv6 as one more way of one route.
 */
export function routeAddBeside(
  route: RouteTarget,
  options: { readonly place: "first" | "last" },
): Request {
  return newRoute("add", options.place === "last" ? NLM_F_APPEND : 0, route);
}

/** Asks by which route the kernel would send to an address; `onRoute` gets it, with the source it would use. Refused with ENETUNREACH when there is none. */
export function routeLookUp(
  address: Address,
  onRoute: (route: Route) => void,
): Request {
  const { family, bits: length } = address;
  const fields = { type: 0, protocol: 0, scope: 0, family, length };
  return {
    type: RTM_GETROUTE,
    flags: 0,
    describe: () => `look up the route to "${address}"`,
    write(writer) {
      writeRouteHeader(writer, fields);
      writer.attributeBytes(RTA_DST, address.toBytes());
    },
    onReply(message) {
      const route = parseRoute(message);
      if (route !== undefined) onRoute(route);
    },
  };
}

/** Deletes a route that agrees with all that is given. Refused with ESRCH when there is none. */
export function routeDelete(route: RouteTarget): Request {
  const fields = {
    type: route.type === undefined ? 0 : typeNumber(route.type),
    protocol: route.protocol ?? 0,
    scope: scopeNumber(route.scope ?? "nowhere"),
  };
  checkFamilies(route);
  return {
    type: RTM_DELROUTE,
    flags: 0,
    describe: () => routeText("delete", "from", route),
    write: (writer) => writeRoute(writer, route, fields),
  };
}

/** Writes the filter of a route dump. */
export function writeRouteFilter(
  writer: MessageWriter,
  filter: {
    family?: Family;
    table?: number;
    protocol?: number;
    index?: number;
  },
): void {
  const fields = { type: 0, protocol: filter.protocol ?? 0, scope: 0 };
  writeRouteHeader(writer, { ...fields, family: filter.family, length: 0 });
  if (filter.table !== undefined) writer.attributeU32(RTA_TABLE, filter.table);
  if (filter.index !== undefined) writer.attributeU32(RTA_OIF, filter.index);
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
    ...((payload.u32(8) & RTNH_F_ONLINK) === 0 ? {} : { onLink: true }),
    index: attributes.u32(RTA_OIF),
    table: attributes.u32(RTA_TABLE) ?? payload.u8(4),
    protocol: payload.u8(5),
    scope: scopeOf(payload.u8(6)),
    metric: attributes.u32(RTA_PRIORITY),
    source: parseIp(attributes.bytes(RTA_PREFSRC), family),
    type: ROUTE_TYPES[type - 1] ?? type,
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
    hops.push({ index, gateway });
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

function newRoute(
  verb: string,
  exists: number,
  route: RouteTarget,
): Request {
  checkFamilies(route);
  const direct = route.family === "ipv4" && route.gateway === undefined &&
    (route.type ?? "unicast") === "unicast";
  const fields = {
    type: typeNumber(route.type ?? "unicast"),
    protocol: route.protocol ?? PROTOCOL_BOOT,
    scope: scopeNumber(route.scope ?? (direct ? "link" : "global")),
  };
  return {
    type: RTM_NEWROUTE,
    flags: NLM_F_CREATE | exists,
    describe: () => routeText(verb, "to", route),
    write: (writer) => writeRoute(writer, route, fields),
  };
}

interface RouteFields {
  readonly type: number;
  readonly protocol: number;
  readonly scope: number;
}

function writeRoute(
  writer: MessageWriter,
  route: RouteTarget,
  fields: RouteFields,
): void {
  const { destination, family, gateway, index, metric, source } = route;
  const length = destination?.length ?? 0;
  const flags = route.onLink === true ? RTNH_F_ONLINK : 0;
  writeRouteHeader(writer, { ...fields, family, length, flags });
  if (destination !== undefined && length > 0) {
    writer.attributeBytes(RTA_DST, destination.address.toBytes());
  }
  if (index !== undefined) writer.attributeU32(RTA_OIF, index);
  if (gateway !== undefined) {
    writer.attributeBytes(RTA_GATEWAY, gateway.toBytes());
  }
  if (metric !== undefined) writer.attributeU32(RTA_PRIORITY, metric);
  if (source !== undefined) {
    writer.attributeBytes(RTA_PREFSRC, source.toBytes());
  }
  writer.attributeU32(RTA_TABLE, route.table ?? MAIN_TABLE);
}

/** Writes a `struct rtmsg`. The table goes into an attribute, which has room for any. */
function writeRouteHeader(
  writer: MessageWriter,
  fields: RouteFields & {
    family: Family | undefined;
    length: number;
    flags?: number;
  },
): void {
  writer.u8(familyNumber(fields.family));
  writer.u8(fields.length);
  writer.u8(0); // source length
  writer.u8(0); // type of service
  writer.u8(0); // RT_TABLE_UNSPEC
  writer.u8(fields.protocol);
  writer.u8(fields.scope);
  writer.u8(fields.type);
  writer.u32(fields.flags ?? 0);
}

function typeNumber(type: RouteType): number {
  return ROUTE_TYPES.indexOf(type) + 1;
}

function routeText(
  verb: string,
  preposition: string,
  route: RouteTarget,
): string {
  const destination = route.destination ?? "default";
  const table = route.table ?? MAIN_TABLE;
  return `${verb} route "${destination}" ${preposition} table ${table}`;
}

function checkFamilies(route: RouteTarget): void {
  for (const part of [route.destination, route.gateway, route.source]) {
    if (part !== undefined && part.family !== route.family) {
      throw new TypeError(
        `Cannot use "${part}" in an ${route.family} route: it is ${part.family}`,
      );
    }
  }
}
