import type {
  ClientGateway,
  ClientPlan,
  GatewaySelection,
} from "../../../lib/egress/mod.ts";
import type { Address } from "../../../lib/inet/mod.ts";
import type { Netns } from "../../../lib/linux/mod.ts";
import { FouUnsupportedError } from "../../../lib/netlink/mod.ts";
import { getLogger } from "../../../lib/telemetry/mod.ts";
import { NotReadyError } from "../base/errors.ts";
import type { Attachment } from "../calls/attachment.ts";
import type { CallOptions } from "../calls/attachments.ts";
import type { ClientBook } from "../clients/client_book.ts";
import {
  byName,
  type Gateways,
  gatewaysOf,
  isSettled,
  planText,
} from "../clients/client_state.ts";
import type { ClientStates } from "../clients/client_states.ts";
import { type GatewayHealthView, goneOf } from "../gateways/chosen_gateways.ts";
import { keepChoices } from "../gateways/kept_choices.ts";
import { fillIn, unknownGateways } from "../gateways/unknown_egresses.ts";
import { applyPlan } from "./applier.ts";
import type { ConnectionEndings } from "./endings.ts";
import { firstStep } from "./first_step.ts";
import type { AppliedPlan, EgressPlane } from "./plane.ts";
import type { ClientPlanner } from "./planner.ts";
import { readChosen } from "./read_chosen.ts";
import type { SeenNamespaces } from "./seen_namespaces.ts";

const log = getLogger("egress");

export interface ClientUpdatesOptions {
  readonly plane: EgressPlane;
  readonly health: GatewayHealthView;
  readonly book: ClientBook;
  readonly planner: ClientPlanner;
  readonly endings: ConnectionEndings;
  readonly namespaces: SeenNamespaces;
}

export type UpdateOutcome =
  | "done"
  /** The first step is done; the next update does more. */
  | "again"
  /** Something has to wait; the update after a while does it. */
  | "later"
  /** The pod's network namespace cannot be found. */
  | "not found";

/** Brings running pods to what their annotations and the API server say now. */
export class ClientUpdates {
  readonly #with: ClientUpdatesOptions;
  readonly #states: ClientStates;

  constructor(options: ClientUpdatesOptions) {
    this.#with = options;
    this.#states = options.book.states;
  }

  /**
   * Makes a pod what the annotations say: a client, another one, or none.
   *
   * @throws as `EgressSetup.setUp()`; what is to be refused is refused even so
   */
  async update(
    attachment: Attachment,
    annotations: Readonly<Record<string, string>>,
    { signal }: CallOptions,
  ): Promise<UpdateOutcome> {
    const selection = await this.#with.planner.select(annotations, { signal });
    if (selection === undefined) return await this.#clear(attachment);
    const state = this.#states.get(attachment.key);
    const known = gatewaysOf(state);
    const { gateways: filled, unknown } = fillIn(selection, known);
    const gateways = keepChoices(filled, known);
    const plan = this.#with.planner.plan(attachment, gateways);
    const { endings } = this.#with;
    const isNew = known.size === 0;
    const gone = goneOf(gateways, known);
    const owed = endings.owed(attachment, gateways);
    const isDone = unknown.length + gone.length + owed.length === 0;
    const isPlanned = isSettled(state, planText(plan));
    if (isDone && isPlanned) {
      const settled = { ...selection, gateways };
      this.#with.book.settle(attachment, { plan, selection: settled });
      return await endings.leave(attachment, { gateways, isNew, signal });
    }
    const step = { plan, gateways, endsGone: gone.length > 0, signal };
    const chosen = isPlanned ? undefined : await this.#choose(attachment, step);
    if (chosen !== undefined) return chosen;
    using netns = await attachment.openNetns();
    if (netns === undefined) return "not found";
    this.#with.namespaces.note(attachment.key, netns);
    const refused = unknown.length === 0
      ? []
      : await this.#with.plane.refused({ netns });
    // What was chosen before a start is known from the kernel alone.
    const before = state === undefined
      ? await readChosen(plan, { ...this.#with, gateways, netns })
      : { kept: gateways, known };
    const ending = goneOf(before.kept, before.known);
    if (state === undefined && ending.length > 0) {
      await this.#expectGone(ending, { annotations, signal, ...before });
    }
    // While their packets take the old way; on another one only those that send would notice.
    const due = [...ending, ...owed];
    await endings.end(attachment, due, { netns, signal });
    const { awaitsAddress } = await this.#converge(attachment, {
      netns,
      signal,
      selection,
      gateways: [
        ...before.kept,
        ...unknownGateways(unknown, { refused, others: gateways }),
      ],
    });
    const outcome = await endings.leave(attachment, {
      gateways: before.kept,
      isNew,
      signal,
    });
    return outcome === "done" && awaitsAddress ? "later" : outcome;
  }

  /**
   * After a start what is cached may be older than what was chosen before it:
   * connections through a gateway that it lacks may be well.
   *
   * @throws {NotReadyError} unless such gateways are gone by what the API server has now, too
   */
  async #expectGone(
    gone: readonly Address[],
    { annotations, known, signal }: CallOptions & {
      readonly annotations: Readonly<Record<string, string>>;
      readonly known: Gateways;
    },
  ): Promise<void> {
    const options = { signal, isLive: true };
    const now = await this.#with.planner.select(annotations, options);
    const gateways = keepChoices(now?.gateways ?? [], known);
    const sure = new Set(goneOf(gateways, known).map(String));
    const late = gone.map(String).filter((each) => !sure.has(each));
    if (late.length === 0) return;
    throw new NotReadyError(
      `Cannot update the gateways of a running pod: the API server does not confirm that ${
        late.join(", ")
      } left its Egress; trying again`,
    );
  }

  /**
   * The first step of an update, a fraction of a millisecond: new connections
   * leave gateways that are not to be chosen, and go to those that are, as far
   * as the pod has ways to them. The others follow when each pod has had its
   * first. Undefined when there is nothing to do.
   */
  async #choose(
    attachment: Attachment,
    { signal, ...options }: CallOptions & {
      readonly plan: ClientPlan;
      readonly gateways: readonly ClientGateway[];
      readonly endsGone: boolean;
    },
  ): Promise<"again" | "not found" | undefined> {
    const before = this.#states.get(attachment.key);
    if (before?.kind !== "client") return undefined;
    const next = firstStep(before, {
      ...options,
      planWithout: (left) => {
        const kept = [...before.gateways.values()];
        return this.#with.planner.plan(attachment, kept, { left });
      },
    });
    if (next === undefined) return undefined;
    using netns = await this.#with.namespaces.open(attachment);
    if (netns === undefined) return "not found";
    this.#states.set(attachment.key, {
      kind: "unsettled",
      gateways: before.gateways,
    });
    await this.#with.plane.choose(next.plan, { netns, signal });
    this.#states.set(attachment.key, {
      ...before,
      gateways: next.gateways,
      plan: planText(next.plan),
    });
    return "again";
  }

  /**
   * What differs now in the network of a pod that was made a client, one phrase
   * each; the next update repairs it. Nothing is known of a pod that is not up
   * to date.
   */
  async findDamage(attachment: Attachment): Promise<readonly string[]> {
    const state = this.#states.get(attachment.key);
    if (state?.kind !== "client" || !state.isVisible) return [];
    const { gateways } = state;
    const plan = this.#with.planner.plan(attachment, [...gateways.values()]);
    // Gateways that are lost may be in it by another way.
    if (!isSettled(state, planText(plan))) return [];
    using netns = await attachment.openNetns();
    if (netns === undefined) return [];
    const problems = await this.#with.plane.inspect(plan, { netns });
    if (problems.length > 0) {
      this.#states.set(attachment.key, { kind: "unsettled", gateways });
    }
    return problems;
  }

  /** Where there can be no tunnels, what would go through them is refused. */
  async #converge(
    attachment: Attachment,
    { selection, gateways, netns, signal }: CallOptions & {
      readonly selection: GatewaySelection;
      readonly gateways: readonly ClientGateway[];
      readonly netns: Netns;
    },
  ): Promise<AppliedPlan> {
    this.#states.set(attachment.key, {
      kind: "unsettled",
      gateways: byName(gateways),
    });
    const { book, plane, planner } = this.#with;
    const plan = planner.plan(attachment, gateways);
    const options = { netns, signal };
    let applied: AppliedPlan;
    try {
      const client = { attachment, gateways };
      applied = await applyPlan(plan, { plane, client, ...options });
    } catch (error) {
      if (!(error instanceof FouUnsupportedError)) throw error;
      const closed = gateways.map((gateway) => ({ ...gateway, service: {} }));
      await plane.apply(planner.plan(attachment, closed), options);
      throw error;
    }
    const known = { ...selection, gateways };
    const { awaitsAddress } = applied;
    book.settle(attachment, { plan, selection: known, awaitsAddress });
    if (awaitsAddress) return applied;
    log.info("Updated an egress client", {
      ...attachment.pod,
      gateways: gateways.map(({ name }) => name),
    });
    return applied;
  }

  async #clear(attachment: Attachment): Promise<UpdateOutcome> {
    if (this.#states.get(attachment.key)?.kind === "none") return "done";
    using netns = await attachment.openNetns();
    if (netns === undefined) return "not found";
    if (await this.#with.plane.clear({ netns })) {
      log.info("A pod is no longer an egress client", { ...attachment.pod });
    }
    this.#with.book.settleNone(attachment);
    return "done";
  }
}
