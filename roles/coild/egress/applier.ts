import type { ClientGateway, ClientPlan } from "../../../lib/egress/mod.ts";
import type { Netns } from "../../../lib/linux/mod.ts";
import { nameText } from "../../../lib/names/mod.ts";
import { FouUnsupportedError } from "../../../lib/netlink/mod.ts";
import { getLogger } from "../../../lib/telemetry/mod.ts";
import type { Attachment } from "../calls/attachment.ts";
import type { CallOptions } from "../calls/attachments.ts";
import type { AppliedPlan, EgressPlane } from "./plane.ts";

const log = getLogger("egress");

export interface ApplyPlanOptions extends CallOptions {
  readonly plane: EgressPlane;
  readonly client: {
    readonly attachment: Attachment;
    readonly gateways: readonly ClientGateway[];
  };
  readonly netns: Netns;
  /** See `EgressPlane.apply()`. */
  readonly freshMtu?: number | undefined;
}

/**
 * Brings a plan into a pod's network.
 *
 * @throws {FouUnsupportedError} which names the pod and its Egresses, when the kernel has no tunnels
 */
export async function applyPlan(
  plan: ClientPlan,
  { plane, client, ...options }: ApplyPlanOptions,
): Promise<AppliedPlan> {
  try {
    await plane.prepare(plan.tunnelFamilies);
    return await plane.apply(plan, options);
  } catch (error) {
    if (!(error instanceof FouUnsupportedError)) throw error;
    const { attachment: { pod }, gateways } = client;
    const names = gateways.map(({ name }) => `"${name}"`).join(", ");
    throw new FouUnsupportedError(
      `Cannot make pod "${
        nameText(pod)
      }" a client of Egress ${names}: ${error.message}`,
      { cause: error },
    );
  }
}

/** Undoes a set-up that failed. Never throws. */
export async function takeBack(
  plane: EgressPlane,
  netns: Netns,
): Promise<void> {
  try {
    await plane.clear({ netns });
  } catch (err) {
    log.error(
      "Cannot undo a failed egress set-up; removing the pod's network",
      { err },
    );
  }
}
