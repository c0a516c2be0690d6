import type { ClientGateway, ClientPlan } from "../../../lib/egress/mod.ts";

/** The gateways of a pod as they were last known, by name. */
export type Gateways = ReadonlyMap<string, ClientGateway>;

/** Known state of a pod's network. */
export type ClientState =
  | {
    readonly kind: "none";
    /** Whether its namespace was not looked into, since it was to be new. */
    readonly isUnseen: boolean;
  }
  /** It may be half-done or damaged, or awaits its address; the next update applies a plan. */
  | { readonly kind: "unsettled"; readonly gateways: Gateways }
  | {
    readonly kind: "client";
    readonly gateways: Gateways;
    /** The plan that its network matches, as JSON. */
    readonly plan: string;
    /** Whether the plan leaves anything in the pod: without a family in common it does not. */
    readonly isVisible: boolean;
  };

/** Empty where none are known. */
export function gatewaysOf(state: ClientState | undefined): Gateways {
  return state === undefined || state.kind === "none"
    ? new Map()
    : state.gateways;
}

/** Gateways by their names. */
export function byName(gateways: readonly ClientGateway[]): Gateways {
  return new Map(gateways.map((each) => [each.name, each]));
}

/** A plan as a state has it. */
export function planText(plan: ClientPlan): string {
  return JSON.stringify(plan);
}

/** Whether a pod's network is known to match a plan. */
export function isSettled(
  state: ClientState | undefined,
  plan: string,
): boolean {
  return state?.kind === "client" && state.plan === plan;
}

/** Whether a pod's network differs from a plan, in nothing but which gateways are ready or lost. */
export function differsInReadyAlone(
  state: ClientState | undefined,
  plan: string,
): boolean {
  return state?.kind === "client" && state.plan !== plan &&
    withoutReady(state.plan) === withoutReady(plan);
}

/** The same for all plans that differ in ready and lost gateways alone. */
function withoutReady(plan: string): string {
  return plan.replaceAll(/"(?:ready|lost)":\[[^\]]*\]/g, "");
}
