import { type Address, type Family, Prefix } from "../../inet/mod.ts";
import { COORDINATOR_PROTOCOL, COORDINATOR_VETH } from "../../names/mod.ts";
import { MAIN_TABLE, PROTOCOL_BOOT, type Route } from "../../netlink/mod.ts";
import { invalidConfig } from "../config/invalid.ts";
import type { Settings } from "../config/defaults.ts";
import type { ResolvedMode } from "./mode.ts";
import {
  findNicTable,
  firstNicTable,
  isNicRule,
  type NicTable,
} from "./nics.ts";
import {
  addressesOf,
  indexOf,
  isOurs,
  type SideState,
} from "../state/state.ts";
import type { DeviceRoute, Step } from "../state/steps.ts";

/** What the routes of a pod are moved by. */
export interface MoveInput {
  readonly nic: string;
  readonly mode: ResolvedMode;
  readonly families: readonly Family[];
  readonly pod: SideState;
  readonly settings: Pick<
    Settings,
    "firstNic" | "defaultRouteNic" | "tunePodRoutes"
  >;
}

/** The interface whose routes leave the main table, and what that takes. */
export interface Moves {
  /** The table it has from then on; absent where nothing is moved. */
  readonly table?: NicTable;
  /** The tables of interfaces that need a way to the host, too. */
  readonly tables: readonly number[];
  /** Whether it is the interface of this call. */
  readonly isOwn: boolean;
  readonly steps: readonly Step[];
  /** The interface that loses a default route which a router has advertised: the next advertisement would bring it back. */
  readonly advertised?: string | undefined;
}

/** RTPROT_RA of `<linux/rtnetlink.h>`. */
const RA_PROTOCOL = 9;
const LINK_LOCAL = Prefix.parse("fe80::/64");
// mutate: without a table nothing depends on whose it is.
const NOTHING: Moves = { tables: [], isOwn: false, steps: [] };

/**
 * One interface keeps the main table; the others send what has their source
 * address by a table of their own. Of two interfaces with a default route it
 * is the one that is configured, else the one that had it before this call. That
 * one has it in the main table, also where an earlier call has moved it.
 *
 * @throws {CniError} with code 7 when the configured interface is not in the pod
 */
export function planMoves(input: MoveInput): Moves {
  const { nic, pod, settings } = input;
  const { firstNic, defaultRouteNic, tunePodRoutes } = settings;
  if (!tunePodRoutes) return NOTHING;
  // Routes are moved by the ADDs of the other interfaces, which come later.
  if (nic === firstNic) return movesOfFirst(input);
  if (
    defaultRouteNic !== undefined &&
    indexOf(pod, defaultRouteNic) === undefined
  ) {
    throw invalidConfig(
      `podDefaultRouteNIC: ${defaultRouteNic} don't exist in pod`,
      `interface "${nic}" cannot leave the default route to it`,
    );
  }
  const holder = holderOf(input);
  if (holder === undefined) return NOTHING;
  const keeper = defaultRouteNic ?? (hasMainAlone(input) ? nic : holder);
  const isOwn = keeper !== nic;
  const moved = isOwn ? nic : holder;
  const table = tableOf(input, moved);
  const own = movesOf(input, { moved, table });
  const first = moved === firstNic ? [] : answersOfFirst(input);
  const isUnderlay = input.mode === "underlay" && moved !== firstNic;
  const ofFirst = isUnderlay ? [firstNicTable(input.mode).table] : [];
  const tables = [table.table, ...ofFirst];
  const isAdvertised = own.some((step) =>
    step.kind === "noRoute" && step.route.protocol === RA_PROTOCOL
  );
  const advertised = isAdvertised ? moved : undefined;
  const steps = [...first, ...own, ...restored(input, { keeper, moved })];
  return { table, tables, isOwn, steps, advertised };
}

/** The first interface needs a table once there are others. */
function movesOfFirst(input: MoveInput): Moves {
  if (!input.pod.rules.some(isNicRule)) return NOTHING;
  const table = firstNicTable(input.mode);
  const steps = answersOfFirst(input);
  return { table, tables: [table.table], isOwn: false, steps };
}

/** The other interface with a default route, in the main table or, after an earlier call, in its own. */
function holderOf({ nic, pod, families }: MoveInput): string | undefined {
  const others = pod.links.filter(({ name }) => name !== "lo" && name !== nic)
    .toSorted((a, b) => a.index - b.index);
  const hasDefault = (index: number, isMeant: (route: Route) => boolean) =>
    waysBy(pod, index).some((route) =>
      route.destination === undefined && families.includes(route.family) &&
      isMeant(route)
    );
  const found =
    others.find(({ index }) =>
      hasDefault(index, ({ table }) => table === MAIN_TABLE)
    ) ??
      others.find(({ index, name }) =>
        name !== COORDINATOR_VETH && hasDefault(index, isOurs)
      );
  return found?.name;
}

/** Whether an earlier call has left the main table to the interface of this one. */
function hasMainAlone({ nic, pod, families }: MoveInput): boolean {
  const index = indexOf(pod, nic);
  const defaults = families.flatMap((family) => mainDefaults(pod, family));
  return defaults.length > 0 &&
    defaults.every((route) => route.index === index && !isOurs(route));
}

/**
 * The default routes that an earlier call has moved from the interface that
 * keeps the main table now. None where a third interface has one there: it
 * would be replaced, and that interface's own ADD has not saved it yet.
 */
function restored(
  { pod, families }: MoveInput,
  { keeper, moved }: { readonly keeper: string; readonly moved: string },
): Step[] {
  const index = indexOf(pod, keeper);
  if (index === undefined) return [];
  const leaving = indexOf(pod, moved);
  return waysBy(pod, index).filter((route) =>
    isDefault(route) && isOurs(route) && route.table !== MAIN_TABLE &&
    families.includes(route.family) &&
    mainDefaults(pod, route.family).every((other) => other.index === leaving)
  ).map((route) => ({
    kind: "route",
    place: "pod",
    route: {
      ...onDevice(route, keeper),
      table: MAIN_TABLE,
      protocol: PROTOCOL_BOOT,
    },
  }));
}

/** The default routes of the main table, each of several ways on its own. */
function mainDefaults({ routes }: SideState, family: Family): readonly Way[] {
  return routes.filter((route) =>
    route.table === MAIN_TABLE && route.family === family &&
    route.type === "unicast" && isDefault(route)
  ).flatMap(({ index, hops, protocol }) =>
    (hops ?? [{ index }]).map((hop) => ({ index: hop.index, protocol }))
  );
}

type Way = Pick<Route, "index" | "protocol">;

function tableOf(
  { mode, pod, settings }: MoveInput,
  moved: string,
): NicTable {
  if (moved === settings.firstNic) return firstNicTable(mode);
  return findNicTable(pod, moved, addressesOf(pod, indexOf(pod, moved)));
}

function movesOf(input: MoveInput, own: OwnTable): Step[] {
  const { pod, families } = input;
  const { main, kept } = routesOf(input, own);
  const { moved: device, table } = own;
  return [
    ...inOrder([...main, ...kept]).map((route) =>
      put(route, { device, table })
    ),
    ...rulesFrom(addressesOf(pod, indexOf(pod, device)), { families, table }),
    ...main.filter(isDefault).map((route): Step => ({
      kind: "noRoute",
      place: "pod",
      route: onDevice(route, device),
    })),
  ];
}

/** An interface and its table. */
interface OwnTable {
  readonly moved: string;
  readonly table: NicTable;
}

/** What the main table has by an interface, and the default routes that an earlier call has moved to its own. */
function routesOf(
  { pod, families }: MoveInput,
  { moved, table }: OwnTable,
): { readonly main: readonly Route[]; readonly kept: readonly Route[] } {
  const index = indexOf(pod, moved);
  const ways = index === undefined
    ? []
    : waysBy(pod, index).filter(({ family }) => families.includes(family));
  const main = ways.filter((route) =>
    route.table === MAIN_TABLE && !isOurs(route) && isMovable(route)
  );
  const kept = ways.filter((route) =>
    route.table === table.table && isOurs(route) && isDefault(route) &&
    !main.some((other) => isDefault(other) && other.family === route.family)
  );
  return { main, kept };
}

/**
 * Answers from the first interface leave by it, also to the networks of others,
 * which the main table reaches by those. In an overlay all that it sends goes to its gateway.
 */
function answersOfFirst(input: MoveInput): Step[] {
  const { mode, pod, families, settings: { firstNic: device } } = input;
  const table = firstNicTable(mode);
  const { main, kept } = routesOf(input, { moved: device, table });
  const routes = [...main, ...kept].filter((route) =>
    mode === "underlay" || isDefault(route)
  );
  const own = addressesOf(pod, indexOf(pod, device)).filter(({ family }) =>
    routes.some((route) => isDefault(route) && route.family === family)
  );
  return [
    ...inOrder(routes).map((route) => put(route, { device, table })),
    ...rulesFrom(own, { families, table }),
  ];
}

/** A gateway has to be reachable when its route is made: routes without one come first. */
function inOrder(routes: readonly Route[]): Route[] {
  return routes.toSorted((a, b) => Number(isVia(a)) - Number(isVia(b)));
}

function rulesFrom(
  addresses: readonly Address[],
  { families, table: { table, priority } }: {
    readonly families: readonly Family[];
    readonly table: NicTable;
  },
): Step[] {
  return addresses.filter(({ family }) => families.includes(family))
    .map((address): Step => ({
      kind: "rule",
      place: "pod",
      rule: {
        family: address.family,
        priority,
        source: Prefix.host(address),
        table,
        protocol: COORDINATOR_PROTOCOL,
      },
    }));
}

function put(
  { expiresS: _expiresS, ...route }: Route,
  { device, table }: { readonly device: string; readonly table: NicTable },
): Step {
  return {
    kind: "route",
    place: "pod",
    route: {
      ...onDevice(route, device),
      table: table.table,
      protocol: COORDINATOR_PROTOCOL,
    },
  };
}

/** The routes by a link, each of several ways on its own. */
function waysBy({ routes }: SideState, index: number): Route[] {
  return routes.flatMap((route): Route[] => {
    if (route.index === index) return [route];
    const { hops = [], ...rest } = route;
    return hops.filter((hop) => hop.index === index)
      .map((hop) => ({ ...rest, ...hop }));
  });
}

/** A route of the kernel as a step has it. */
export function onDevice(
  { index: _index, hops: _hops, ...rest }: Route,
  device: string,
): DeviceRoute {
  return { ...rest, device };
}

function isDefault({ destination }: Route): boolean {
  return destination === undefined;
}

function isVia({ gateway }: Route): boolean {
  return gateway !== undefined;
}

function isMovable({ type, destination }: Route): boolean {
  return type === "unicast" &&
    !(destination !== undefined && destination.equals(LINK_LOCAL));
}
