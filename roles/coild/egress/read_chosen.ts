import type { ClientGateway, ClientPlan } from "../../../lib/egress/mod.ts";
import type { Netns } from "../../../lib/linux/mod.ts";
import { byName } from "../clients/client_state.ts";
import {
  chosenFrom,
  type GatewayHealthView,
  markedOf,
} from "../gateways/chosen_gateways.ts";
import { keepChoices } from "../gateways/kept_choices.ts";
import type { EgressPlane } from "./plane.ts";

export interface ReadChosenOptions {
  readonly gateways: readonly ClientGateway[];
  readonly netns: Netns;
  readonly plane: Pick<EgressPlane, "choices" | "orphans">;
  readonly health: Pick<GatewayHealthView, "recall">;
}

/** What a pod has chosen before a start. */
export interface ChosenBefore {
  /** The pod's gateways, so that connections through these stay. */
  readonly kept: readonly ClientGateway[];
  /** The gateways that it chose from, by the name of their Egress; some may be gone by now. */
  readonly known: ReadonlyMap<string, ClientGateway>;
  /** Marks of connections through gateways that are gone, which it should have ended and could not. */
  readonly orphans: readonly number[];
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
  return {
    kept,
    known,
    orphans: await orphansOf(kept, { known, netns, plane }),
  };
}

/**
 * Of what Egress such a gateway was is not known. So there is none where an
 * Egress keeps connections, or has no gateway of the family for a moment.
 */
async function orphansOf(
  kept: readonly ClientGateway[],
  { known, netns, plane }: Pick<ReadChosenOptions, "netns" | "plane"> & {
    readonly known: ReadonlyMap<string, ClientGateway>;
  },
): Promise<number[]> {
  if (known.size === 0 || kept.some(({ keepsLost }) => keepsLost)) return [];
  const there = chosenFrom([...kept, ...known.values()]);
  const orphans = await plane.orphans(there, { netns });
  return orphans.filter(({ family }) =>
    kept.every((gateway) =>
      gateway.direct === undefined || gateway.service[family] === undefined ||
      chosenFrom([gateway]).some((each) => each.family === family)
    )
  ).map(({ mark }) => mark);
}
