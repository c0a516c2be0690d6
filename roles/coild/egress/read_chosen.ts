import type { ClientGateway, ClientPlan } from "../../../lib/egress/mod.ts";
import type { Address } from "../../../lib/inet/mod.ts";
import type { Netns } from "../../../lib/linux/mod.ts";
import {
  type GatewayHealthView,
  goneOf,
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

/** What a pod has chosen before a start. */
export interface ChosenBefore {
  /** The pod's gateways, so that connections through these stay. */
  readonly kept: readonly ClientGateway[];
  /** Those that it chose, and that are gone by now. */
  readonly gone: readonly Address[];
}

/** Reads which gateways a pod chose from before a start. Those that were lost are recalled. */
export async function readChosen(
  plan: ClientPlan,
  { gateways, netns, plane, health }: ReadChosenOptions,
): Promise<ChosenBefore> {
  const { chosen, lost } = await plane.choices(plan, { netns });
  health.recall(markedOf(gateways, lost));
  const kept = keepChoices(gateways, ({ name }) => chosen.has(name));
  const before = kept.map((each): [string, ClientGateway] => [
    each.name,
    { ...each, direct: [], senders: chosen.get(each.name) ?? [] },
  ]);
  return { kept, gone: goneOf(kept, new Map(before)) };
}
