import type { ClientPlan, GatewaySelection } from "../../../lib/egress/mod.ts";
import type { AttachmentKey } from "../../../lib/cni/mod.ts";
import type { Attachment } from "../calls/attachment.ts";
import { byName, planText } from "./client_state.ts";
import { ClientStates } from "./client_states.ts";
import { conditionsOf, endsOf } from "./conditions.ts";
import type { EgressReports } from "./reports.ts";

/** Known state of each pod, and reports about it. */
export class ClientBook {
  readonly states: ClientStates = new ClientStates();
  readonly #reports: EgressReports;

  constructor(reports: EgressReports) {
    this.#reports = reports;
  }

  /** A pod's network is as planned, but for what awaits its address. */
  settle(
    attachment: Attachment,
    { plan, selection, awaitsAddress = false, isNew = false }: {
      readonly plan: ClientPlan;
      readonly selection: GatewaySelection;
      readonly awaitsAddress?: boolean;
      readonly isNew?: boolean;
    },
  ): void {
    const gateways = byName(selection.gateways);
    this.states.set(
      attachment.key,
      awaitsAddress ? { kind: "unsettled", gateways } : {
        kind: "client",
        gateways,
        plan: planText(plan),
        isVisible: plan.families.length > 0,
      },
    );
    this.#reports.report(attachment, {
      conditions: conditionsOf(selection, plan),
      ends: endsOf(selection, plan),
      isNew,
    });
  }

  /** A pod is not a client, and its network was looked into. */
  settleNone(attachment: Attachment): void {
    this.states.set(attachment.key, { kind: "none", isUnseen: false });
    this.#reports.report(attachment, { conditions: [] });
  }

  forget(key: AttachmentKey): void {
    this.states.delete(key);
    this.#reports.forget(key);
  }
}
