import { COORDINATOR_TABLES } from "../../names/mod.ts";
import type { Route } from "../../netlink/mod.ts";
import { hasSameRule, isSameRoute, routesInPlace } from "../state/compare.ts";
import { onDevice } from "./move_routes.ts";
import { isNicRule } from "./nics.ts";
import type { PlanInput } from "./plan.ts";
import {
  indexOf,
  isOurs,
  type Sides,
  type SideState,
  sourcesOf,
} from "../state/state.ts";
import type { DeviceRoute, Step, StepOf } from "../state/steps.ts";

/** What an earlier ADD of the same interface left, which has another address, table or configuration now. */
export function staleSteps(
  steps: readonly Step[],
  { pod, host, input }: Sides & { readonly input: PlanInput },
): Step[] {
  return [
    ...staleRules(steps, pod, input),
    ...staleRoutes(steps, pod, input),
    ...staleOnHost(pod, host, input),
  ];
}

function staleRules(
  steps: readonly Step[],
  pod: SideState,
  { moves, nic }: PlanInput,
): Step[] {
  const wanted = steps.flatMap((step) =>
    step.kind === "rule" ? [step.rule] : []
  );
  const inUse = sourcesOf(pod, { except: indexOf(pod, nic) });
  return pod.rules.filter((rule) =>
    isNicRule(rule) && rule.table === moves.table?.table &&
    !inUse.has(String(rule.source)) && !hasSameRule(wanted, rule)
  ).map((rule) => ({ kind: "noRule", place: "pod", rule }));
}

/** In the interface's own table only: others may have other configurations. */
function staleRoutes(
  steps: readonly Step[],
  pod: SideState,
  { moves }: PlanInput,
): Step[] {
  const wanted = new Set(
    steps.flatMap((step) =>
      step.kind === "route" && step.place === "pod"
        ? wantedInPlace(step, pod)
        : []
    ),
  );
  return pod.routes.filter((route) =>
    isOurs(route) && route.table === moves.table?.table &&
    route.table !== COORDINATOR_TABLES && !wanted.has(route)
  ).flatMap((route) => withDevice(route, pod))
    .map((route) => ({ kind: "noRoute", place: "pod", route }));
}

/** The same, and the one that the wanted route is put in place of. */
function wantedInPlace(
  { route: wanted }: StepOf<"route">,
  pod: SideState,
): Route[] {
  const index = indexOf(pod, wanted.device);
  return routesInPlace(wanted, pod).filter((route, i) =>
    i === 0 || isSameRoute(wanted, route, index)
  );
}

/** On the host's end: routes and neighbours for addresses that no interface of the pod has. */
function staleOnHost(
  pod: SideState,
  host: SideState,
  { outer }: PlanInput,
): Step[] {
  const index = indexOf(host, outer.device);
  const inPod = sourcesOf(pod);
  const stale = host.routes.filter((route) =>
    isOurs(route) && route.index === index &&
    !inPod.has(String(route.destination))
  );
  return stale.flatMap((route): Step[] => {
    const address = route.destination?.address;
    const known = host.neighbours.find((other) =>
      address !== undefined && other.address.equals(address) &&
      other.state === "permanent"
    );
    return [
      ...withDevice(route, host).map((gone): Step => ({
        kind: "noRoute",
        place: "host",
        route: gone,
      })),
      ...known?.mac === undefined ? [] : [
        {
          kind: "noNeighbour",
          place: "host",
          neighbour: {
            device: outer.device,
            address: known.address,
            mac: known.mac,
          },
        } as const,
      ],
    ];
  });
}

/** A route of the kernel as a step says it; none for one with several ways. */
export function withDevice(
  route: Route,
  side: Pick<SideState, "links">,
): DeviceRoute[] {
  const device = side.links.find((link) => link.index === route.index)?.name;
  return device === undefined ? [] : [onDevice(route, device)];
}
