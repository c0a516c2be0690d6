import type { Address } from "../../inet/mod.ts";
import type { Neighbour, Route, Rule } from "../../netlink/mod.ts";
import { indexOf, type SideState, type State, sysctlKey } from "./state.ts";
import type { DeviceRoute, FixedNeighbour, Step, StepOf } from "./steps.ts";

/** Whether the kernel has what a step makes, and nothing is to be done. */
export function holds(step: Step, state: State): boolean {
  switch (step.kind) {
    case "rule":
      return hasRule(step.rule, state[step.place]);
    case "noRule":
      return !hasRule(step.rule, state[step.place]);
    case "route":
      return hasRoute(step.route, state[step.place]);
    case "noRoute":
      return !hasRoute(step.route, state[step.place]);
    case "neighbour": {
      const found = findNeighbour(step.neighbour, state[step.place]);
      return found?.state === "permanent" &&
        found.mac === step.neighbour.mac;
    }
    case "noNeighbour":
      return findNeighbour(step.neighbour, state[step.place]) === undefined;
    case "address":
      return hasAddress(step, state.pod);
    case "link":
      return hasSetting(step, state.pod);
    case "sysctl": {
      const value = state.sysctls.get(sysctlKey(step));
      // What the kernel does not have need not be set.
      return value === undefined || value === step.value;
    }
    case "replies":
      return state.repliesMarked;
  }
}

/** Whether one of the rules says the same as a rule of the kernel. */
export function hasSameRule(rules: readonly Rule[], found: Rule): boolean {
  return found.hasMore !== true && keysOf(rules).has(ruleKey(found));
}

/** The routes that a new one to the same destination would be put in place of, or beside, in the kernel's order. */
export function routesInPlace(
  route: DeviceRoute,
  side: Pick<SideState, "routes">,
): Route[] {
  return bySlot(side.routes).get(slotOf(route)) ?? [];
}

/** Whether a new route would be put in place of, or beside, a route of the kernel. */
export function isInPlace(route: DeviceRoute, other: Route): boolean {
  return slotOf(other) === slotOf(route);
}

/** What the kernel knows about a neighbour. */
export function findNeighbour(
  { device, address }: Pick<FixedNeighbour, "device" | "address">,
  side: SideState,
): Neighbour | undefined {
  const index = indexOf(side, device);
  return index === undefined
    ? undefined
    : byPlace(side.neighbours).get(placeOf({ index, address }));
}

/** Whether a route of the kernel has a way that is the route's. */
export function isSameRoute(
  route: DeviceRoute,
  other: Route,
  index: number | undefined,
): boolean {
  const ways = other.hops ?? [other];
  return isInPlace(route, other) &&
    other.protocol === route.protocol && other.scope === route.scope &&
    other.type === route.type && isSame(other.source, route.source) &&
    ways.some((way) =>
      way.index === index && isSame(way.gateway, route.gateway)
    );
}

function hasRule(rule: Rule, { rules }: SideState): boolean {
  return keysOf(rules).has(ruleKey(rule));
}

function hasRoute(route: DeviceRoute, side: SideState): boolean {
  const index = indexOf(side, route.device);
  return index !== undefined &&
    routesInPlace(route, side).some((other) =>
      isSameRoute(route, other, index)
    );
}

function hasAddress(
  { device, address }: StepOf<"address">,
  pod: SideState,
): boolean {
  const index = indexOf(pod, device);
  return pod.addresses.some((entry) =>
    entry.index === index && entry.prefix.address.equals(address)
  );
}

function hasSetting(
  { device, setting }: StepOf<"link">,
  pod: SideState,
): boolean {
  const link = pod.links.find(({ name }) => name === device);
  const { up, mac, txQueueLength } = setting;
  return link !== undefined && (up === undefined || link.up) &&
    (mac === undefined || link.mac === mac) &&
    (txQueueLength === undefined || link.txQueueLength === txQueueLength);
}

function isSame(a: Address | undefined, b: Address | undefined): boolean {
  return a?.toString() === b?.toString();
}

/** Made once for a list: a pod may have thousands of everything. */
function onceFor<L extends object, T>(make: (list: L) => T): (list: L) => T {
  const made = new WeakMap<L, T>();
  return (list) => {
    const known = made.get(list) ?? make(list);
    made.set(list, known);
    return known;
  };
}

const bySlot = onceFor((routes: readonly Route[]) =>
  Map.groupBy(routes, slotOf)
);
const keysOf = onceFor((rules: readonly Rule[]) =>
  new Set(rules.filter(({ hasMore }) => hasMore !== true).map(ruleKey))
);
const byPlace = onceFor((neighbours: readonly Neighbour[]) =>
  new Map(neighbours.map((one) => [placeOf(one), one]))
);

function placeOf(
  { index, address }: { readonly index: number; readonly address: Address },
): string {
  return `${index} ${address}`;
}

/** A table has one route for each of these, unless routes were put beside each other. */
function slotOf(
  route: Pick<Route, "table" | "family" | "destination" | "metric">,
): string {
  const { table, family, destination, metric = 0 } = route;
  // mutate: no two slots have the same text either way.
  return [table, family, destination ?? "default", metric].join(" ");
}

function ruleKey(rule: Rule): string {
  const { family, priority, table, source, destination, fwmark, fwmask, iif } =
    rule;
  // mutate: no two rules that the coordinator makes have the same text either way.
  return [
    ...[family, priority, table, source, destination, fwmark, fwmask, iif],
    rule.protocol,
  ].join(" ");
}
