import type {
  NetlinkError,
  Request,
  Route,
  RouteSocket,
} from "../netlink/mod.ts";
import { routeAdd, routeDelete, routeReplace } from "../netlink/mod.ts";
import type { RouteDiff, WantedRoute } from "./diff.ts";

/** The part of a route socket that this library needs. */
export type RouteKernel = Pick<RouteSocket, "listRoutes" | "tryExecute">;

/** A change that the kernel refused. */
export interface RouteFailure {
  /** The destination, as text. */
  readonly destination: string;
  /** The gateway, as text; absent for routes straight to a device. */
  readonly gateway?: string;
  /** Why: a `NetlinkError`, or a `TypeError` for a second gateway. */
  readonly error: Error;
}

/** What a synchronisation did. A failure of one route stops none of the others. */
export interface SyncResult {
  /** How many routes are new. */
  readonly added: number;
  /** How many routes got another gateway. */
  readonly moved: number;
  /** How many routes that nobody wants went away. */
  readonly removed: number;
  /** Changes that did not happen; the next synchronisation tries again. */
  readonly failures: readonly RouteFailure[];
  /** Routes of other protocols that were found and left alone. */
  readonly foreign: readonly Route[];
}

/** What all routes of one synchroniser have in common. */
export interface RouteDefaults {
  readonly table: number;
  readonly protocol: number;
  /** Device of routes without a gateway. */
  readonly index?: number;
}

/** Carries out a diff: additions and moves first, then removals. */
export async function applyDiff(
  kernel: RouteKernel,
  diff: RouteDiff,
  defaults: RouteDefaults,
): Promise<SyncResult> {
  const changes = [
    ...diff.add.map((route) => changeOf("add", route, defaults)),
    ...diff.move.map((route) => changeOf("move", route, defaults)),
    ...diff.remove.map((route) => removalOf(route)),
  ];
  const errors = await kernel.tryExecute(changes.map(({ request }) => request));
  const done = { add: 0, move: 0, remove: 0 };
  const failures: RouteFailure[] = diff.conflicting.map(conflictOf);
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
    foreign: diff.foreign,
  };
}

interface Change {
  readonly kind: "add" | "move" | "remove";
  readonly route: WantedRoute | Route;
  readonly request: Request;
}

/** `add` is exclusive: a route of somebody else that appeared since the listing is not overwritten. */
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

function conflictOf(route: WantedRoute): RouteFailure {
  return {
    ...describe(route),
    error: new TypeError(
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
