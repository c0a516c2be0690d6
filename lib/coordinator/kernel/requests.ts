import {
  addressAdd,
  addressDelete,
  linkSet,
  type Neighbour,
  neighbourDelete,
  neighbourReplace,
  type Request,
  type Route,
  routeAdd,
  routeAddBeside,
  routeDelete,
  routeReplace,
  type RouteTarget,
  ruleAdd,
  ruleDelete,
} from "../../netlink/mod.ts";
import { COORDINATOR_PROTOCOL } from "../../names/mod.ts";
import { findNeighbour, isSameRoute, routesInPlace } from "../state/compare.ts";
import { indexOf, type SideState, type State } from "../state/state.ts";
import type { DeviceRoute, NetlinkStep, StepOf } from "../state/steps.ts";

/** The request, answered only when the kernel refuses it. */
export function silent(request: Request): Request {
  // mutate: an answer more only takes time.
  return { ...request, silent: true };
}

/** The request that carries out a step. @throws {TypeError} when its link is not there */
export function doRequest(step: NetlinkStep, state: State): Request {
  switch (step.kind) {
    case "rule":
      // Whether one is there has been looked at, and better than the kernel would.
      return ruleAdd(step.rule, { duplicate: true });
    case "noRule":
      return ruleDelete(step.rule);
    case "route":
      return routeReplace(target(step.route, state[step.place]));
    case "noRoute":
      return routeDelete(target(step.route, state[step.place]));
    case "neighbour":
      return neighbourReplace(neighbourOf(step, state[step.place]));
    case "noNeighbour":
      return neighbourDelete(neighbourOf(step, state[step.place]));
    case "address":
      return addressAdd({ ...addressOf(step, state), replace: true });
    case "link":
      return linkSet({ name: step.device }, step.setting);
  }
}

/** As {@linkcode doRequest}, but refused where a route would take the place of one that `state` lacks: EEXIST. */
export function addRequest(step: NetlinkStep, state: State): Request {
  if (step.kind !== "route") return doRequest(step, state);
  const side = state[step.place];
  return routesInPlace(step.route, side).length === 0
    ? routeAdd(target(step.route, side))
    : doRequest(step, state);
}

/** The requests that put back what was there before the step. */
export function undoRequests(step: NetlinkStep, state: State): Request[] {
  switch (step.kind) {
    case "rule":
      return [ruleDelete(step.rule)];
    case "noRule":
      return [ruleAdd(step.rule)];
    case "route":
      return [undoRoute(step, state[step.place])];
    case "noRoute":
      return [undoNoRoute(step, state[step.place])];
    case "neighbour":
    case "noNeighbour":
      return [undoNeighbour(step, state[step.place])];
    case "address":
      return undoAddress(step, state);
    case "link":
      return [linkSet({ name: step.device }, settingBefore(step, state))];
  }
}

/** The last IPv4 address of a link takes along all that the family has by it (fib_disable_ip() of net/ipv4/fib_frontend.c). */
function undoAddress(step: StepOf<"address">, state: State): Request[] {
  const own = addressOf(step, state);
  type Made = Partial<Record<"index" | "protocol", number | undefined>>;
  const isOwn = ({ index, protocol }: Made) =>
    index === own.index && protocol === COORDINATOR_PROTOCOL;
  const isDirect = ({ gateway }: Route) => gateway === undefined;
  const routes = state.pod.routes.filter((route) =>
    route.family === "ipv4" && isOwn(route)
  ).toSorted((a, b) => Number(isDirect(b)) - Number(isDirect(a)));
  const neighbours = state.pod.neighbours.filter((neighbour) =>
    neighbour.address.family === "ipv4" && isOwn(neighbour)
  );
  return [
    addressDelete(own),
    ...routes.map((route) => routeReplace(asBefore(route))),
    ...neighbours.flatMap(neighbourAsBefore),
  ];
}

function undoRoute({ route }: StepOf<"route">, side: SideState): Request {
  const [before] = routesInPlace(route, side);
  return before === undefined
    ? routeDelete(target(route, side))
    : routeReplace(asBefore(before));
}

/** Of several routes to one destination the first counts, so it has to be the first again. */
function undoNoRoute({ route }: StepOf<"noRoute">, side: SideState): Request {
  const index = indexOf(side, route.device);
  const at = routesInPlace(route, side)
    .findIndex((other) => isSameRoute(route, other, index));
  return routeAddBeside(target(route, side), {
    place: at === 0 ? "first" : "last",
  });
}

function undoNeighbour(
  step: StepOf<"neighbour" | "noNeighbour">,
  side: SideState,
): Request {
  const { index, address } = neighbourOf(step, side);
  const before = findNeighbour(step.neighbour, side);
  const [restored] = before === undefined ? [] : neighbourAsBefore(before);
  return restored ?? neighbourDelete({ index, address });
}

/** Nothing for one whose MAC address the kernel does not know. */
function neighbourAsBefore(
  { index, address, mac, protocol, state }: Neighbour,
): Request[] {
  if (mac === undefined) return [];
  const known = typeof state === "number" ? {} : { state };
  return [neighbourReplace({ index, address, mac, protocol, ...known })];
}

function settingBefore({ device, setting }: StepOf<"link">, { pod }: State) {
  const before = pod.links.find(({ name }) => name === device);
  return {
    ...setting.up ? { up: before?.up } : {},
    ...setting.mac === undefined ? {} : { mac: before?.mac },
    ...setting.txQueueLength === undefined
      ? {}
      : { txQueueLength: before?.txQueueLength },
  };
}

function target(route: DeviceRoute, side: SideState): RouteTarget {
  const { device, type, ...rest } = route;
  return { ...rest, index: linkIndex(device, side), type: typeOf(type) };
}

function asBefore({ type, hops, ...rest }: Route): RouteTarget {
  return { ...rest, ...hops?.[0], type: typeOf(type) };
}

function typeOf(type: Route["type"]): RouteTarget["type"] {
  return typeof type === "number" ? undefined : type;
}

function neighbourOf(
  { neighbour }: StepOf<"neighbour" | "noNeighbour">,
  side: SideState,
) {
  const { device, ...rest } = neighbour;
  const index = linkIndex(device, side);
  return { ...rest, index, protocol: COORDINATOR_PROTOCOL };
}

function addressOf({ device, address }: StepOf<"address">, { pod }: State) {
  const prefix = { address, length: 32 };
  return { index: linkIndex(device, pod), prefix };
}

function linkIndex(device: string, side: SideState): number {
  const index = indexOf(side, device);
  if (index !== undefined) return index;
  throw new TypeError(`Cannot change link "${device}": there is none`);
}
