import {
  type Address,
  type DualStack,
  FAMILIES,
  type Family,
  mapDualStack,
} from "../../inet/mod.ts";
import { EGRESS_ORIGINATING_TABLES } from "../../names/mod.ts";
import {
  type AddressEntry,
  type Link,
  MAIN_TABLE,
  type Route,
  type Rule,
} from "../../netlink/mod.ts";
import { CLIENT_PROTOCOL, type ClientPlan } from "./plan.ts";
import { originatingRule } from "./rules.ts";
import { isClientLink } from "../kernel/tunnel_names.ts";

/** IFF_LOOPBACK of `<linux/if.h>`. */
const LOOPBACK = 0x8;

/** An interface by which connections come in, with what the main table says about it. */
export interface ClientInterface {
  /** The link's index, which is the mark of its connections. */
  readonly index: number;
  /** The link's name. */
  readonly name: string;
  /** Its addresses of global scope, of the plan's families. */
  readonly addresses: readonly Address[];
  /** Its routes of the main table, in the order to make them. */
  readonly routes: DualStack<readonly Route[]>;
}

/** What `findInterfaces()` chooses from. */
export interface InterfaceFacts {
  readonly links: readonly Link[];
  readonly addresses: readonly AddressEntry[];
  readonly routes: readonly Route[];
}

/**
 * The interfaces that originating-only mode is about: every link that has, in
 * one of the plan's families, an address of global scope and routes in the
 * main table. None when the mode is off. Pure.
 */
export function findInterfaces(
  plan: ClientPlan,
  { links, addresses, routes }: InterfaceFacts,
): ClientInterface[] {
  if (!plan.originatingOnly) return [];
  return links
    .filter((link) => !isClientLink(link) && (link.flags & LOOPBACK) === 0)
    .map((link): ClientInterface => {
      const main = routes.filter((route) =>
        route.table === MAIN_TABLE && route.index === link.index &&
        route.type === "unicast"
      );
      const own = addresses
        .filter(({ index, family, scope }) =>
          index === link.index && scope === "global" &&
          plan.families.includes(family)
        )
        .map(({ prefix }) => prefix.address)
        .toSorted((a, b) => a.compare(b));
      const families = FAMILIES.filter((family) =>
        own.some((address) => address.family === family)
      );
      return {
        index: link.index,
        name: link.name,
        addresses: own,
        routes: routesByFamily(families, main),
      };
    })
    .filter(({ routes: dual }) => FAMILIES.some((family) => dual[family]));
}

function routesByFamily(
  families: readonly Family[],
  routes: readonly Route[],
): DualStack<readonly Route[]> {
  return Object.fromEntries(
    families
      .map((family) =>
        [
          family,
          routes.filter((route) => route.family === family)
            .toSorted((a, b) => Number(isVia(a)) - Number(isVia(b))),
        ] as const
      )
      .filter(([, own]) => own.length > 0),
  );
}

/** A gateway has to be reachable when its route is made: routes without one come first. */
function isVia(route: Route): boolean {
  return route.gateway !== undefined;
}

/** The table that answers to connections from an interface are routed by. */
export function originatingTable(index: number): number {
  return EGRESS_ORIGINATING_TABLES + index;
}

/** The rules for answers, one for each interface and family. */
export function originatingRules(
  interfaces: readonly ClientInterface[],
): Rule[] {
  return FAMILIES.flatMap((family) =>
    interfaces
      .filter(({ routes }) => routes[family] !== undefined)
      .map(({ index }) => originatingRule(family, index))
  );
}

/** The copies of the main table's routes. */
export function originatingRoutes(
  interfaces: readonly ClientInterface[],
): Route[] {
  return interfaces.flatMap(({ index, routes }) => {
    const table = originatingTable(index);
    const copies = mapDualStack(
      routes,
      (own) =>
        own.map((route): Route => ({
          ...route,
          table,
          protocol: CLIENT_PROTOCOL,
        })),
    );
    return [...copies.ipv4 ?? [], ...copies.ipv6 ?? []];
  });
}
