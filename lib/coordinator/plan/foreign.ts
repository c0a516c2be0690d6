import {
  COILD_PROTOCOL,
  COORDINATOR_FIRST_NIC,
  COORDINATOR_NIC_PRIORITIES,
  COORDINATOR_PRIORITY,
  COORDINATOR_PROTOCOL,
  COORDINATOR_TABLES,
} from "../../names/mod.ts";
import type { Rule } from "../../netlink/mod.ts";
import { hasSameRule, routesInPlace } from "../state/compare.ts";
import type { Place, Sides, SideState } from "../state/state.ts";
import { routeText, ruleText } from "../state/step_text.ts";
import type { Step } from "../state/steps.ts";
import { withDevice } from "./stale.ts";

/** What other programs have in the coordinator's place, which stays. */
export interface Foreign {
  /** As `ip` shows it. */
  readonly found: readonly string[];
  /** The steps that do not take the place of any of it. */
  readonly steps: readonly Step[];
}

/**
 * Looks for rules of the coordinator's priorities, and routes in its tables,
 * that other programs have made. A pod's table is chosen so that it has none;
 * where one came later, or the table is one of fixed numbers, it counts instead
 * of ours. In the main table ours comes first: that is what a hijacked
 * destination means.
 */
export function keepForeign(
  steps: readonly Step[],
  { pod, host }: Sides,
): Foreign {
  const routes = pod.routes.filter(({ table, protocol, type }) =>
    isTable(table) && type === "unicast" && isOthers(protocol)
  );
  return {
    found: [
      ...foreignRules("pod", pod, steps).map((rule) => `pod: rule ${rule}`),
      ...foreignRules("host", host, steps).map((rule) => `host: rule ${rule}`),
      ...routes.flatMap((route) => withDevice(route, pod))
        .map((route) => `pod: route ${routeText(route)}`),
    ],
    steps: steps.filter((step) => !isTaken(step, { routes })),
  };
}

/** Not those that say just what a step wants: upstream's coordinator has made the same. */
function foreignRules(
  place: Place,
  side: SideState,
  steps: readonly Step[],
): readonly string[] {
  const wanted = steps.flatMap((step) =>
    step.kind === "rule" && step.place === place ? [step.rule] : []
  );
  const isWanted = (found: Rule) =>
    hasSameRule(wanted, { ...found, protocol: COORDINATOR_PROTOCOL });
  return side.rules.filter((rule) =>
    isOthers(rule.protocol) && isPriority(place, rule.priority) &&
    !isWanted(rule)
  ).map(ruleText);
}

function isTaken(step: Step, foreign: Pick<SideState, "routes">): boolean {
  return step.kind === "route" && step.place === "pod" &&
    routesInPlace(step.route, foreign).length > 0;
}

function isOthers(protocol: number | undefined): boolean {
  return protocol !== COORDINATOR_PROTOCOL && protocol !== COILD_PROTOCOL;
}

function isTable(table: number): boolean {
  return table >= COORDINATOR_TABLES &&
    table <= COORDINATOR_TABLES + COORDINATOR_FIRST_NIC;
}

function isPriority(place: Place, priority: number): boolean {
  if (priority === COORDINATOR_PRIORITY) return true;
  return place === "pod" && priority >= COORDINATOR_NIC_PRIORITIES &&
    priority <= COORDINATOR_NIC_PRIORITIES + COORDINATOR_FIRST_NIC;
}
