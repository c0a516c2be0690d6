import { type Address, distinct, Prefix } from "../../inet/mod.ts";
import type { LinkEnd } from "../plan/plan.ts";
import { withDevice } from "../plan/stale.ts";
import { findNeighbour, holds } from "../state/compare.ts";
import { indexOf, isOurs, type SideState, stateOf } from "../state/state.ts";
import type { DeviceRoute, Step } from "../state/steps.ts";

/** What decides by which addresses a pod reaches its host. */
export interface RoutesToHostInput {
  readonly pod: SideState;
  readonly inner: LinkEnd;
  readonly outer: LinkEnd;
  readonly hostAddresses: readonly Address[];
}

/**
 * The routes and neighbours by which a running pod reaches addresses that the
 * host has got since its ADD, in each table that has such routes; and those of
 * addresses that the host has lost, but for gateways: what goes through the
 * host needs one, and any address serves. Pure.
 */
export function planRoutesToHost(input: RoutesToHostInput): Step[] {
  const { hostAddresses, pod } = input;
  const known = routesToHost(input);
  const gateways = pod.routes.filter(isOurs).flatMap(({ gateway }) =>
    gateway ?? []
  );
  const wanted = hostAddresses.flatMap((address) => routesTo(address, known));
  const stale = known.filter(({ address }) =>
    hostAddresses.some(({ family }) => family === address.family) &&
    !hostAddresses.some((other) => other.equals(address)) &&
    !gateways.some((gateway) => gateway.equals(address))
  );
  const state = stateOf(pod);
  return [
    ...addressesOf(wanted).map((address) =>
      neighbourStep("neighbour", address, input)
    ),
    ...wanted.map((route) => routeStep("route", route)),
    ...stale.map((route) => routeStep("noRoute", route)),
    ...addressesOf(stale).map((address) =>
      neighbourStep("noNeighbour", address, input)
    ),
  ].filter((step) => !holds(step, state));
}

interface HostRoute {
  readonly address: Address;
  readonly route: DeviceRoute;
}

/** Distinguishes the host's addresses from the gateways of a cluster's network: their neighbours have the host's MAC address. */
function routesToHost({ inner, outer, pod }: RoutesToHostInput): HostRoute[] {
  const index = indexOf(pod, inner.device);
  return pod.routes.flatMap((route) => {
    const { destination, gateway } = route;
    const address = destination?.address;
    const isToHost = isOurs(route) && route.index === index &&
      gateway === undefined && address !== undefined &&
      destination?.equals(Prefix.host(address)) === true;
    if (!isToHost) return [];
    const known = findNeighbour({ device: inner.device, address }, pod);
    if (known?.state !== "permanent" || known.mac !== outer.mac) return [];
    return withDevice(route, pod).map((found) => ({ address, route: found }));
  });
}

/** As those of its family go, one for each table. */
function routesTo(address: Address, known: readonly HostRoute[]): HostRoute[] {
  const byTable = new Map(
    known.filter((route) => route.address.family === address.family)
      .map(({ route }) => [route.table, route]),
  );
  return [...byTable.values()].map((route) => ({
    address,
    route: { ...route, destination: Prefix.host(address) },
  }));
}

function addressesOf(known: readonly HostRoute[]): Address[] {
  return distinct(known.map(({ address }) => address));
}

function routeStep(kind: "route" | "noRoute", { route }: HostRoute): Step {
  return { kind, place: "pod", route };
}

function neighbourStep(
  kind: "neighbour" | "noNeighbour",
  address: Address,
  { inner: { device }, outer: { mac } }: RoutesToHostInput,
): Step {
  return { kind, place: "pod", neighbour: { device, address, mac } };
}
