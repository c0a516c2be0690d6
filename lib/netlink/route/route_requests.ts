import type { Address, Family, Prefix } from "../../inet/mod.ts";
import {
  NLM_F_APPEND,
  NLM_F_CREATE,
  NLM_F_EXCL,
  NLM_F_REPLACE,
  RTM_DELROUTE,
  RTM_GETROUTE,
  RTM_NEWROUTE,
} from "../message/constants.ts";
import { familyNumber } from "../message/family.ts";
import type { MessageWriter } from "../message/message_writer.ts";
import type { Request } from "../message/request.ts";
import { type Scope, scopeNumber } from "../connection/scope.ts";
import {
  MAIN_TABLE,
  parseRoute,
  PROTOCOL_BOOT,
  type Route,
  ROUTE_TYPES,
  type RouteType,
  RTA_DST,
  RTA_EXPIRES,
  RTA_GATEWAY,
  RTA_METRICS,
  RTA_OIF,
  RTA_PREFSRC,
  RTA_PRIORITY,
  RTA_TABLE,
  RTNH_F_ONLINK,
} from "./route.ts";

/** A route to add, replace or delete. */
export interface RouteTarget {
  /** Absent means the default route. */
  readonly destination?: Prefix | undefined;
  /** The family of everything in the route. */
  readonly family: Family;
  /** The next hop; absent when the destination is on the link. */
  readonly gateway?: Address | undefined;
  /** Whether the gateway is taken to be on the link without a route that says so. */
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
  /** In how many seconds the kernel removes it: IPv6 alone; never where absent. */
  readonly expiresS?: number | undefined;
  /** As of {@linkcode Route}. */
  readonly metrics?: Uint8Array | undefined;
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
  const { expiresS, metrics } = route;
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
  if (expiresS !== undefined) writer.attributeU32(RTA_EXPIRES, expiresS);
  if (metrics !== undefined) writer.attributeBytes(RTA_METRICS, metrics);
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
