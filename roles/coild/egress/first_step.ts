import type { ClientGateway, ClientPlan } from "../../../lib/egress/mod.ts";
import { leftOf } from "../gateways/chosen_gateways.ts";
import {
  byName,
  type ClientState,
  differsInReadyAlone,
  type Gateways,
  planText,
} from "../clients/client_state.ts";

/** Next state of a pod's network. */
export interface FirstStep {
  readonly plan: ClientPlan;
  readonly gateways: Gateways;
}

/**
 * The part of an update that changes nothing but the gateways that new
 * connections go to: all of it, or that they leave gateways that are not to be
 * chosen any longer. Undefined when there is none.
 */
export function firstStep(
  before: Extract<ClientState, { readonly kind: "client" }>,
  { plan, gateways, endsGone, planWithout }: {
    readonly plan: ClientPlan;
    readonly gateways: readonly ClientGateway[];
    /** Whether connections through gateways that are gone are still to be ended. These stay known. */
    readonly endsGone: boolean;
    /** What the pod has, but for new connections by these gateways. */
    readonly planWithout: (left: ReadonlySet<string>) => ClientPlan;
  },
): FirstStep | undefined {
  const isStep = ({ plan }: FirstStep) =>
    differsInReadyAlone(before, planText(plan));
  const whole: FirstStep = {
    plan,
    gateways: endsGone ? before.gateways : byName(gateways),
  };
  if (isStep(whole)) return whole;
  const left = leftOf(gateways, before.gateways);
  const leaving: FirstStep = {
    plan: planWithout(new Set(left.map(String))),
    gateways: before.gateways,
  };
  return isStep(leaving) ? leaving : undefined;
}
