import type { Address, Prefix } from "../inet/mod.ts";
import { type Route, wasAddedBy } from "../netlink/mod.ts";

/** One route that should exist. */
export interface WantedRoute {
  /** The network that it leads to. */
  readonly destination: Prefix;
  /** Absent: straight to the device. */
  readonly gateway?: Address;
}

/** What to do so that the routes of our protocol are exactly the wanted ones. */
export interface RouteDiff {
  /** Destinations that have no route of ours yet. */
  readonly add: readonly WantedRoute[];
  /** Destinations whose route of ours goes elsewhere: to be replaced in one step, never deleted first. */
  readonly move: readonly WantedRoute[];
  /** Routes of ours that nobody wants. */
  readonly remove: readonly Route[];
  /** Routes of other protocols, left alone. */
  readonly foreign: readonly Route[];
  /** Destinations wanted again with another gateway. */
  readonly conflicting: readonly WantedRoute[];
}

/**
 * Compares what is wanted with what is there. Pure. `present` are routes of
 * one table; default routes in it are nobody's concern. A wanted destination
 * with a foreign route appears in none of the lists to do: the owner of that
 * route keeps it.
 * Of a destination wanted via two gateways the first counts.
 */
export function diffRoutes(
  wanted: readonly WantedRoute[],
  present: readonly Route[],
  options: {
    readonly protocol: number;
    /** Whether the table is Coil's: there, IPv6 routes of protocol `boot` are ours if the protocol is 0. */
    readonly isOwnTable?: boolean;
  },
): RouteDiff {
  const { protocol, isOwnTable = false } = options;
  const { byDestination: wantedBy, conflicting } = indexWanted(wanted);
  const taken = new Set<string>();
  const right = new Set<string>();
  const ours = new Map<string, Route[]>();
  const foreign: Route[] = [];
  for (const [key, route] of distinct(present)) {
    const isOurs = isOwnTable
      ? wasAddedBy(route, protocol)
      : route.protocol === protocol;
    if (!isOurs) {
      foreign.push(route);
      taken.add(key);
      continue;
    }
    ours.set(key, [...(ours.get(key) ?? []), route]);
  }
  const remove: Route[] = [];
  for (const [key, routes] of ours) {
    const target = wantedBy.get(key);
    const match = target && routes.find((route) => sameGateway(route, target));
    if (match !== undefined) right.add(key);
    // A route to be moved is replaced in place; any further one has to go.
    const keep = target && !taken.has(key) ? match ?? routes[0] : match;
    remove.push(...routes.filter((route) => route !== keep));
  }
  const open = [...wantedBy].filter(([key]) =>
    !right.has(key) && !taken.has(key)
  );
  return {
    add: open.filter(([key]) => !ours.has(key)).map(([, route]) => route),
    move: open.filter(([key]) => ours.has(key)).map(([, route]) => route),
    remove,
    foreign,
    conflicting,
  };
}

/**
 * The routes with a destination, each once, and the text of it. A list may
 * have one twice: the kernel starts an IPv6 list over when the table changes
 * in the meantime (fib6_dump_table() in net/ipv6/ip6_fib.c). Taken for two, one would
 * be removed as superfluous, and with it the only one there is.
 */
function distinct(routes: readonly Route[]): [string, Route][] {
  const seen = new Set<string>();
  return routes.flatMap((route): [string, Route][] => {
    const { destination, gateway, index, metric, protocol } = route;
    if (destination === undefined || destination.length === 0) return [];
    const key = destination.toString();
    const text = [key, gateway, index, metric, protocol].join();
    if (seen.has(text)) return [];
    seen.add(text);
    return [[key, route]];
  });
}

function indexWanted(
  wanted: readonly WantedRoute[],
): { byDestination: Map<string, WantedRoute>; conflicting: WantedRoute[] } {
  const byDestination = new Map<string, WantedRoute>();
  const conflicting: WantedRoute[] = [];
  for (const route of wanted) {
    const key = route.destination.toString();
    const other = byDestination.get(key);
    if (other === undefined) byDestination.set(key, route);
    else if (!sameGateway(other, route)) conflicting.push(route);
  }
  return { byDestination, conflicting };
}

function sameGateway(
  a: Pick<Route, "gateway"> | WantedRoute,
  b: Pick<Route, "gateway"> | WantedRoute,
): boolean {
  return a.gateway?.toString() === b.gateway?.toString();
}
