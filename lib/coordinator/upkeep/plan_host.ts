import { type Address, FAMILIES, type Family, Prefix } from "../../inet/mod.ts";
import {
  COORDINATOR_HOST_TABLE,
  COORDINATOR_PRIORITY,
} from "../../names/mod.ts";
import type { Link, Neighbour, Route, Rule } from "../../netlink/mod.ts";
import { firstOf } from "../plan/family.ts";
import { direct, hostRule } from "../plan/plan.ts";
import { formerPairOf, pairOf } from "../plan/veth.ts";
import { isOurs } from "../state/state.ts";
import type { Step } from "../state/steps.ts";

/** What the host has of the coordinator. */
export interface JoinedHost {
  readonly links: readonly Link[];
  /** All. */
  readonly rules: readonly Rule[];
  /** The coordinator's. */
  readonly routes: readonly Route[];
  /** The coordinator's. */
  readonly neighbours: readonly Neighbour[];
  /** By which pods reach it. */
  readonly hostAddresses: readonly Address[];
}

/** The host's ends of joined pods, by their neighbours, routes and aliases. */
export function joinedLinks(
  { links, routes, neighbours }: JoinedHost,
): readonly Link[] {
  const indexes = new Set([...routes, ...neighbours].map(({ index }) => index));
  return links.filter((link) =>
    formerPairOf(link) === undefined &&
    (indexes.has(link.index) || pairOf(link) !== undefined)
  );
}

/**
 * The addresses of joined pods that the host has no route to, or one from an
 * address that it has lost. A route by another pod's link is one: that pod has
 * been given the address since, and the DEL of this one was lost.
 */
export function lostAddresses(
  host: JoinedHost,
): readonly (Pick<Neighbour, "address"> & { readonly link: Link })[] {
  const joined = new Map(joinedLinks(host).map((link) => [link.index, link]));
  const routes = Map.groupBy(
    host.routes,
    ({ destination }) => String(destination),
  );
  return host.neighbours.flatMap(({ address, index }) => {
    const link = joined.get(index);
    const isReached = routes.get(String(Prefix.host(address)))?.some((route) =>
      route.index === index
        ? hasSource(route, host)
        : route.index !== undefined && joined.has(route.index)
    ) === true;
    return link === undefined || isReached ? [] : [{ address, link }];
  });
}

/** Kernels leave a route whose source is gone in tables other than the main one. */
function hasSource(
  { family, source }: Route,
  { hostAddresses }: JoinedHost,
): boolean {
  const own = hostAddresses.filter((address) => address.family === family);
  return family === "ipv6" || own.length === 0 ||
    own.some((address) => source?.equals(address) === true);
}

/**
 * The routes and rules that the host lacks; where no pod is left, what it has
 * too much. `sourceOf` is what the host says it sends from to an address, which
 * may be one that it has lost. Pure.
 */
export function planHost(
  host: JoinedHost,
  sourceOf: (address: Address) => Address | undefined,
): Step[] {
  if (joinedLinks(host).length === 0) return superfluousRules(host);
  const routes = lostAddresses(host).flatMap(({ address, link }) =>
    tablesOf(host, address.family).map((table): Step => ({
      kind: "route",
      place: "host",
      route: {
        ...direct(Prefix.host(address), { device: link.name, table }),
        source: usableSource(host, { address, said: sourceOf(address) }),
      },
    }))
  );
  return [...routes, ...missingRules(host)];
}

/** As ADD chooses it. */
function usableSource(
  { hostAddresses }: JoinedHost,
  { address, said }: {
    readonly address: Address;
    readonly said: Address | undefined;
  },
): Address | undefined {
  if (address.family === "ipv6") return undefined;
  const isOwn = hostAddresses.some((own) => said?.equals(own) === true);
  return isOwn ? said : firstOf("ipv4", hostAddresses);
}

function missingRules(host: JoinedHost): Step[] {
  return FAMILIES.filter((family) =>
    host.neighbours.some(({ address }) => address.family === family)
  ).flatMap((family) => {
    const present = hostRules(host, family).map(({ table }) => table);
    return tablesOf(host, family)
      .filter((table) => !present.includes(table))
      .map((table) => hostRule(family, table));
  });
}

function superfluousRules(host: JoinedHost): Step[] {
  return FAMILIES.flatMap((family) => hostRules(host, family))
    .map((rule) => ({ kind: "noRule", place: "host", rule }));
}

/** Where routes to pods are: as rules and routes of the family say, else those of the other one. */
function tablesOf(host: JoinedHost, family: Family): readonly number[] {
  const inUse = (families: readonly Family[]) => [
    ...new Set(
      families.flatMap((each) => [
        ...hostRules(host, each),
        ...host.routes.filter((route) => route.family === each),
      ]).map(({ table }) => table),
    ),
  ];
  const own = inUse([family]);
  if (own.length > 0) return own;
  const others = inUse(FAMILIES);
  return others.length > 0 ? others : [COORDINATOR_HOST_TABLE];
}

function hostRules({ rules }: JoinedHost, family: Family): readonly Rule[] {
  return rules.filter((rule) =>
    isOurs(rule) && rule.family === family &&
    rule.priority === COORDINATOR_PRIORITY && rule.fwmark === undefined
  );
}
