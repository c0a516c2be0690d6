import type { ClientGateway, ClientPlan } from "../../../lib/egress/mod.ts";
import type { Netns } from "../../../lib/linux/mod.ts";
import { byName } from "../clients/client_state.ts";
import {
  type GatewayHealthView,
  markedOf,
} from "../gateways/chosen_gateways.ts";
import { keepChoices } from "../gateways/kept_choices.ts";
import type { EgressPlane } from "./plane.ts";

export interface ReadChosenOptions {
  readonly gateways: readonly ClientGateway[];
  readonly netns: Netns;
  readonly plane: Pick<EgressPlane, "choices">;
  readonly health: Pick<GatewayHealthView, "recall">;
}

/** What a pod has chosen before a start. */
export interface ChosenBefore {
  /** The pod's gateways, so that connections through these stay. */
  readonly kept: readonly ClientGateway[];
  /** The gateways that it chose from, by the name of their Egress; some may be gone by now. */
  readonly known: ReadonlyMap<string, ClientGateway>;
}

/** Reads which gateways a pod chose from before a start. Those that were lost are recalled. */
export async function readChosen(
  plan: ClientPlan,
  { gateways, netns, plane, health }: ReadChosenOptions,
): Promise<ChosenBefore> {
  const { chosen, lost } = await plane.choices(plan, { netns });
  const known = byName(gateways.flatMap((each) => {
    const senders = chosen.get(each.name);
    return senders === undefined ? [] : [{ ...each, direct: [], senders }];
  }));
  const kept = keepChoices(gateways, known);
  health.recall(markedOf(kept, lost));
  return { kept, known };
}
