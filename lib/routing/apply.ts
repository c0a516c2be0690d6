import type {
  NetlinkError,
  Request,
  Route,
  RouteSocket,
} from "../netlink/mod.ts";
import { routeAdd, routeDelete, routeReplace } from "../netlink/mod.ts";
import { type Address, Prefix } from "../inet/mod.ts";
import { RouteSieve, type WantedRoutes } from "./diff.ts";

/** One route that should exist. */
export interface WantedRoute {
  /** The network that it leads to. */
  readonly destination: Prefix;
  /** Absent: straight to the device. */
  readonly gateway?: Address | undefined;
}

/** The part of a route socket that this library needs. */
export type RouteKernel = Pick<RouteSocket, "listRoutes" | "tryExecute">;

/** A change that the kernel refused. */
export interface RouteFailure {
  /** The destination, as text. */
  readonly destination: string;
  /** The gateway, as text; absent for routes straight to a device. */
  readonly gateway?: string;
  /** Why: a `NetlinkError`, or another error for a second gateway. */
  readonly error: Error;
}

/** Result of a synchronisation. A failure of one route stops none of the others. */
export interface SyncResult {
  /** How many routes are new. */
  readonly added: number;
  /** How many routes got another gateway. */
  readonly moved: number;
  /** How many routes that are no longer wanted went away. */
  readonly removed: number;
  /** Changes that did not happen; the next synchronisation tries again. */
  readonly failures: readonly RouteFailure[];
  /** Routes of other protocols that were found and left alone. */
  readonly foreign: readonly Route[];
}

/** Attributes that all routes of one synchroniser share. */
export interface RouteDefaults {
  readonly table: number;
  readonly protocol: number;
  /** Device of routes without a gateway. */
  readonly index?: number;
}

/** The most changes made at a time: 50,000 requests at once would be much memory. */
const BATCH = 1_000;

/** Plan: routes to set, and our routes to delete. */
export interface RoutePlan {
  readonly add: readonly WantedRoute[];
  readonly move: readonly WantedRoute[];
  readonly remove: readonly Route[];
}

const NOTHING: RoutePlan = { add: [], move: [], remove: [] };

/**
 * Makes the routes of our protocol in a table exactly the wanted ones. `isOwnTable`: the table is Coil's.
 * `onRoute` sees each route that is there.
 *
 * @throws {NetlinkError} when the table cannot be listed
 */
export async function syncRoutes(
  kernel: RouteKernel,
  wanted: WantedRoutes,
  { isOwnTable = false, onRoute = () => {}, ...defaults }: RouteDefaults & {
    readonly isOwnTable?: boolean;
    readonly onRoute?: (route: Route) => void;
  },
): Promise<SyncResult> {
  const { table, protocol } = defaults;
  const sieve = new RouteSieve(wanted, { protocol, isOwnTable });
  const kept = await kernel.listRoutes({
    table,
    // Of the main table only ours are listed: it may hold the whole Internet's.
    ...(isOwnTable ? {} : { protocol }),
    keep: (route) => {
      onRoute(route);
      return sieve.keep(route);
    },
  });
  const { add, move, remove, foreign } = sieve.diff(kept);
  const routeTo = (key: string): WantedRoute => ({
    destination: Prefix.parse(key),
    gateway: wanted.get(key),
  });
  const failures: RouteFailure[] = [];
  let added = 0;
  for (let at = 0; at < add.length; at += BATCH) {
    const part = add.slice(at, at + BATCH).map(routeTo);
    const plan = { ...NOTHING, add: part };
    const done = await applyPlan(kernel, plan, defaults);
    added += done.added;
    failures.push(...done.failures);
  }
  const plan = { ...NOTHING, move: move.map(routeTo), remove };
  const last = await applyPlan(kernel, plan, defaults);
  failures.push(...last.failures);
  return { ...last, added, failures, foreign };
}

/** Carries out a plan: additions and moves first, then removals. */
export async function applyPlan(
  kernel: Pick<RouteKernel, "tryExecute">,
  plan: RoutePlan,
  defaults: RouteDefaults,
): Promise<Omit<SyncResult, "foreign">> {
  const changes = [
    ...plan.add.map((route) => changeOf("add", route, defaults)),
    ...plan.move.map((route) => changeOf("move", route, defaults)),
    ...plan.remove.map((route) => removalOf(route)),
  ];
  const errors = await kernel.tryExecute(changes.map(({ request }) => request));
  const done = { add: 0, move: 0, remove: 0 };
  const failures: RouteFailure[] = [];
  for (const [i, change] of changes.entries()) {
    const error = errors[i];
    if (error === undefined || isGone(change, error)) done[change.kind]++;
    else failures.push({ ...describe(change.route), error });
  }
  return {
    added: done.add,
    moved: done.move,
    removed: done.remove,
    failures,
  };
}

interface Change {
  readonly kind: "add" | "move" | "remove";
  readonly route: WantedRoute | Route;
  readonly request: Request;
}

/** `add` is exclusive: another program's route that appeared since the listing is not overwritten. */
function changeOf(
  kind: "add" | "move",
  route: WantedRoute,
  defaults: RouteDefaults,
): Change {
  const build = kind === "add" ? routeAdd : routeReplace;
  const request = build({
    family: route.destination.family,
    destination: route.destination,
    table: defaults.table,
    protocol: defaults.protocol,
    scope: "global",
    gateway: route.gateway,
    index: defaults.index,
  });
  return { kind, route, request };
}

function removalOf(route: Route): Change {
  const { family, destination, gateway, index, table, protocol, metric } =
    route;
  const request = routeDelete({
    family,
    destination,
    gateway,
    index,
    table,
    protocol,
    metric,
  });
  return { kind: "remove", route, request };
}

/** ESRCH: no such route. Removing what is gone has succeeded. */
function isGone(change: Change, error: NetlinkError): boolean {
  return change.kind === "remove" && error.code === "ESRCH";
}

/** The failure that a second gateway for a destination is. */
export function conflictOf(route: WantedRoute): RouteFailure {
  return {
    ...describe(route),
    error: new Error(
      `Cannot route "${route.destination}" via ${route.gateway}: two gateways are requested for it`,
    ),
  };
}

function describe(
  route: WantedRoute | Route,
): Pick<RouteFailure, "destination" | "gateway"> {
  return {
    destination: route.destination?.toString() ?? "default",
    ...(route.gateway === undefined
      ? {}
      : { gateway: route.gateway.toString() }),
  };
}
