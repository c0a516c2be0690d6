import {
  IPV6_METRIC,
  type Request,
  type Route,
  routeAdd,
  routeDelete,
  routeReplace,
  type RouteTarget,
  type Rule,
  ruleAdd,
  ruleDelete,
} from "../../netlink/mod.ts";
import { BACKSTOP_METRIC, CLIENT_PROTOCOL, type ClientRoute } from "./plan.ts";
import { ruleKey } from "./rules.ts";
import { TUNNEL_LINKS } from "../kernel/tunnel_names.ts";

/** What to do so that ours are exactly the wanted ones. */
export interface Changes<T = unknown> {
  /** First: what is missing, or different. */
  readonly put: readonly Request[];
  /** Then: what the plan does not have. It may be gone by then. */
  readonly remove: readonly Request[];
  /** What `put` makes. */
  readonly missing: readonly T[];
  /** What `remove` removes. */
  readonly surplus: readonly T[];
}

/**
 * The routes of a plan in the kernel's words. `indexes` has the links by name.
 *
 * @throws {TypeError} when a tunnel's link is not among them
 */
export function kernelRoutes(
  routes: readonly ClientRoute[],
  indexes: ReadonlyMap<string, number>,
): Route[] {
  return routes.map((route): Route => {
    const { destination, table, kind } = route;
    const common = {
      family: destination.family,
      destination: destination.length === 0 ? undefined : destination,
      table,
      protocol: CLIENT_PROTOCOL,
      // Upstream Coil's, so that its routes are found to be right.
      scope: "global",
    } as const;
    if (kind === "unreachable") {
      return { ...common, type: "unreachable", metric: BACKSTOP_METRIC };
    }
    if (kind === "throw") return { ...common, type: "throw" };
    const link = kind === "tunnel"
      ? route.tunnel
      : TUNNEL_LINKS[destination.family].receiver;
    const index = indexes.get(link);
    if (index === undefined) {
      throw new TypeError(
        `Cannot route "${destination}": there is no link "${link}"`,
      );
    }
    return kind === "tunnel"
      ? { ...common, type: "unicast", index, source: route.source }
      : { ...common, type: "unicast", index, metric: BACKSTOP_METRIC };
  });
}

/** What a plan refuses and passes on, with routes that need no link: they can be made after any failure. */
export function refusals(routes: readonly ClientRoute[]): Request[] {
  const without = routes.filter(({ kind }) => kind !== "tunnel")
    .map((route): ClientRoute =>
      route.kind === "reject" ? { ...route, kind: "unreachable" } : route
    );
  return kernelRoutes(without, new Map()).map(putRoute);
}

/**
 * Compares routes. A route to the same destination with the same metric is
 * replaced, never deleted before the new one is there. Pure.
 */
export function diffRoutes(
  wanted: readonly Route[],
  present: readonly Route[],
): Changes<Route> {
  const there = new Set(present.map(routeKey));
  const keys = new Set(wanted.map(routeKey));
  const missing = wanted.filter((route) => !there.has(routeKey(route)));
  const replaced = new Set(missing.map(slotKey));
  const surplus = present.filter((route) =>
    !keys.has(routeKey(route)) && !replaced.has(slotKey(route))
  );
  return {
    put: missing.map(putRoute),
    remove: surplus.map((route) => routeDelete(deletable(route))),
    missing,
    surplus,
  };
}

/** Compares rules, each of which is wanted once. Pure. */
export function diffRules(
  wanted: readonly Rule[],
  present: readonly Rule[],
): Changes<Rule> {
  const byKey = new Map(wanted.map((rule) => [ruleKey(rule), rule]));
  // The first one like it is the wanted one; more of them are too many.
  const surplus = present.filter((rule) => !byKey.delete(ruleKey(rule)));
  const missing = [...byKey.values()];
  return {
    // Whether one is there has been looked at, and better than the kernel would.
    put: missing.map((rule) => ruleAdd(rule, { duplicate: true })),
    remove: surplus.map((rule) => ruleDelete(rule)),
    missing,
    surplus,
  };
}

/** Makes a route where there is none to its destination with its metric; refused with EEXIST where there is. */
export function addRoute(route: Route): Request {
  return routeAdd({ ...target(route), type: typeOf(route) });
}

function putRoute(route: Route): Request {
  return routeReplace({ ...target(route), type: typeOf(route) });
}

function target(route: Route): RouteTarget {
  const { family, destination, gateway, table, protocol, scope, metric } =
    route;
  const { source, index, onLink } = route;
  return {
    family,
    destination,
    gateway,
    table,
    protocol,
    scope,
    metric,
    source,
    onLink,
    index: route.type === "unicast" ? index : undefined,
  };
}

/** As listed: all that is known of a route, so that no other one is meant. */
function deletable(route: Route): RouteTarget {
  return { ...target(route), index: route.index, type: typeOf(route) };
}

function typeOf({ type }: Route): RouteTarget["type"] {
  return typeof type === "number" ? undefined : type;
}

/** All that counts in a route as text. The kernel attaches refusing IPv6 routes to the loopback. */
function routeKey(route: Route): string {
  const { type, index, gateway, scope, source, protocol, onLink } = route;
  const link = type === "unicast" ? index : undefined;
  // mutate: words keep the numbers apart even without blanks.
  return [slotKey(route), type, link, gateway, scope, source, protocol, onLink]
    .join(" ");
}

/** What a table has one route for. */
function slotKey({ table, family, destination, metric }: Route): string {
  const least = family === "ipv6" ? IPV6_METRIC : 0;
  // mutate: words keep the numbers apart even without blanks.
  return [table, family, destination, metric ?? least].join(" ");
}
