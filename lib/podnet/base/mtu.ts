import { Address, type Family } from "../../inet/mod.ts";
import { type Link, MAIN_TABLE, type Route } from "../../netlink/mod.ts";

/**
 * Addresses that stand for "the outside", as upstream Coil asks for: one of
 * the IETF protocol assignments (RFC 6890) in either family, the IPv4 one first.
 */
const OUTSIDE: readonly Address[] = [
  Address.parse("192.0.0.10"),
  Address.parse("2001:1::2"),
];

/** IFF_LOOPBACK of `<linux/if.h>`. */
const LOOPBACK = 0x8;

/**
 * The MTU for pods: that of the link towards the outside; without such a
 * route, the smallest of the physical links that are up; 0, which leaves it
 * to the kernel, without those. Pure.
 */
export function detectMtu(
  links: readonly Link[],
  routes: readonly Route[],
): number {
  for (const address of OUTSIDE) {
    const indexes = new Set(bestRoutes(routes, address).flatMap(indexesOf));
    const mtu = smallest(links.filter(({ index }) => indexes.has(index)));
    if (mtu > 0) return mtu;
  }
  return smallest(
    links.filter((link) =>
      link.up && link.kind === undefined && (link.flags & LOOPBACK) === 0
    ),
  );
}

function smallest(links: readonly Link[]): number {
  return links.length === 0 ? 0 : Math.min(...links.map(({ mtu }) => mtu));
}

/** The routes with the longest match, and of these the ones with the least metric. */
function bestRoutes(routes: readonly Route[], address: Address): Route[] {
  const matching = routes.filter((route) =>
    route.table === MAIN_TABLE && route.type === "unicast" &&
    covers(route, address, address.family)
  );
  const length = Math.max(...matching.map(lengthOf));
  const longest = matching.filter((route) => lengthOf(route) === length);
  const metric = Math.min(...longest.map(metricOf));
  return longest.filter((route) => metricOf(route) === metric);
}

function covers(route: Route, address: Address, family: Family): boolean {
  if (route.family !== family) return false;
  return route.destination?.contains(address) ?? true;
}

function lengthOf(route: Route): number {
  return route.destination?.length ?? 0;
}

function metricOf(route: Route): number {
  return route.metric ?? 0;
}

function indexesOf(route: Route): number[] {
  return route.index === undefined ? [] : [route.index];
}
