import {
  type ClientGateway,
  type ClientPlan,
  gatewayMark,
} from "../../../lib/egress/mod.ts";
import type { Netns } from "../../../lib/linux/mod.ts";
import {
  type GatewayHealthView,
  markedOf,
} from "../gateways/chosen_gateways.ts";
import { keepChoices } from "../gateways/kept_choices.ts";
import type { EgressPlane } from "./plane.ts";

/** Where to read. */
export interface ReadChosenOptions {
  readonly gateways: readonly ClientGateway[];
  readonly netns: Netns;
  readonly plane: Pick<EgressPlane, "choices">;
  readonly health: Pick<GatewayHealthView, "recall">;
}

/**
 * Reads which gateways a pod chose from before a start, and returns its gateways
 * so that connections through these stay. Those that were lost are recalled.
 */
export async function readChosen(
  plan: ClientPlan,
  { gateways, netns, plane, health }: ReadChosenOptions,
): Promise<ClientGateway[]> {
  const { chosen, lost } = await plane.choices(plan, { netns });
  health.recall(markedOf(gateways, lost));
  return keepChoices(
    gateways,
    ({ senders }) => senders.some((each) => chosen.has(gatewayMark(each))),
  );
}
