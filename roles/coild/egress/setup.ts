import type {
  ClientGateway,
  ClientPlan,
  GatewayGroup,
  Selection,
} from "../../../lib/egress/mod.ts";
import { type Address, valuesOf } from "../../../lib/inet/mod.ts";
import { splitKey, type V1Pod } from "../../../lib/kube/mod.ts";
import type { Netns } from "../../../lib/linux/mod.ts";
import { FouUnsupportedError } from "../../../lib/netlink/mod.ts";
import type { AttachmentKey } from "../../../lib/cni/mod.ts";
import { getLogger } from "../../../lib/telemetry/mod.ts";
import type { Announcer } from "../gateways/announcer.ts";
import { ClientApplier } from "./applier.ts";
import {
  byName,
  type ClientState,
  gatewaysOf,
  isSettled,
  planText,
} from "../clients/client_state.ts";
import { ClientStates } from "../clients/client_states.ts";
import type { CallOptions, Connected } from "../calls/attachments.ts";
import {
  type ConditionReason,
  conditionsOf,
  endsOf,
} from "../clients/conditions.ts";
import { ConnectionEndings, type ConnectionEndingsOptions } from "./endings.ts";
import type { EgressPlane } from "./plane.ts";
import { readChosen } from "./read_chosen.ts";
import { ClientPlanner, type ClientPlannerOptions } from "./planner.ts";
import type { EgressReports } from "../clients/reports.ts";
import type { EgressSource } from "../gateways/source.ts";
import {
  EgressNotFoundError,
  InvalidEgressError,
  InvalidNetworkError,
} from "../base/errors.ts";
import { podKey } from "../base/keys.ts";
import { goneOf, lostOf } from "../gateways/chosen_gateways.ts";
import { firstStep } from "./first_step.ts";
import { keepChoices } from "../gateways/kept_choices.ts";
import { recall, unknownGateways } from "../gateways/lost_egresses.ts";
import type { PodFacts } from "../cluster/pod_source.ts";
import {
  type Addressed,
  type Attachment,
  POD_INTERFACE,
} from "../calls/attachment.ts";

const log = getLogger("egress");

export interface EgressSetupOptions
  extends ClientPlannerOptions, ConnectionEndingsOptions {
  readonly source: Pick<EgressSource, "find" | "isFollowed">;
  readonly plane: EgressPlane;
  readonly announcer: Pick<Announcer, "announce">;
  readonly reports: EgressReports;
}

/** What an update came to. */
export type UpdateOutcome =
  | "done"
  /** The first step is done; the next update does more. */
  | "again"
  /** The pod's network namespace cannot be found. */
  | "not found";

/**
 * Makes clients of Egresses of pods, and keeps them so: from what annotations
 * and the API server say, by a plan, to the kernel. The caller has the lock of
 * the attachment.
 */
export class EgressSetup {
  readonly #with: EgressSetupOptions;
  readonly #states = new ClientStates();
  readonly #planner: ClientPlanner;
  readonly #applier: ClientApplier;
  readonly #endings: ConnectionEndings;

  constructor(options: EgressSetupOptions) {
    this.#with = options;
    this.#planner = new ClientPlanner(options);
    this.#applier = new ClientApplier(options.plane);
    this.#endings = new ConnectionEndings(options);
  }

  /** How many pods are clients. */
  get clients(): number {
    return this.#states.clients;
  }

  /** The gateways that clients choose from. */
  get chosenFrom(): readonly GatewayGroup[] {
    return this.#states.chosenFrom;
  }

  /** Those of them that take new connections, as far as the API server says; as text. */
  get ready(): ReadonlySet<string> {
    return this.#states.ready;
  }

  /** The Egresses whose gateways have any of these addresses, by name. */
  egressesAt(addresses: readonly Address[]): ReadonlySet<string> {
    const concerned = this.chosenFrom.filter(({ gateways }) =>
      gateways.some((each) => addresses.some((own) => own.equals(each)))
    );
    return new Set(concerned.map(({ name }) => name));
  }

  /** How many clients something is wrong with now, by what it is. */
  get conditions(): ReadonlyMap<ConditionReason, number> {
    return this.#with.reports.counts;
  }

  /** Takes note of why a pod cannot be made a client; of nothing when it can. */
  refused(key: AttachmentKey, reason?: ConditionReason): void {
    this.#with.reports.refused(key, reason);
  }

  /**
   * The gateways that a new pod asks for; undefined when it asks for none.
   *
   * @throws {InvalidAnnotationError} when the annotations name what no Egress can be, or too many
   * @throws {EgressNotFoundError} when one of them does not exist
   * @throws {InvalidEgressError} when one of them has an invalid destination
   */
  async wanted(
    pod: Pick<PodFacts, "namespace" | "name" | "annotations">,
    options: CallOptions,
  ): Promise<Selection | undefined> {
    const selection = await this.#planner.select(pod.annotations, options);
    if (selection === undefined) return undefined;
    const [missing] = selection.missing;
    if (missing !== undefined) throw new EgressNotFoundError(pod, missing);
    const [invalid] = selection.invalid;
    if (invalid !== undefined) throw new InvalidEgressError(invalid);
    return selection;
  }

  /**
   * Notes that a pod asks for nothing at its ADD, which does not take the time
   * to look: its namespace is new, as a rule. What is known to be a client, by
   * an earlier ADD, is one until its next update.
   */
  skip(attachment: Attachment): void {
    if (this.#states.get(attachment.key) !== undefined) return;
    this.#remember(attachment, { kind: "none", isUnseen: true });
  }

  /**
   * Whether a pod's network may be other than its state says. True once for a pod
   * whose namespace was not looked into; then its next update looks. A runtime may
   * add a container again after its DEL, in the namespace that an earlier ADD had
   * made a client's. Always true for a client while its gateways are not watched.
   */
  doubt({ key }: Attachment): boolean {
    const state = this.#states.get(key);
    if (state?.kind !== "none") return this.#isUnreported(state);
    if (!state.isUnseen) return false;
    this.#states.delete(key);
    return true;
  }

  #isUnreported(state: ClientState | undefined): boolean {
    const { source } = this.#with;
    return gatewaysOf(state).keys()
      .some((gateway) => !source.isFollowed(splitKey(gateway).namespace ?? ""));
  }

  /** Announces a new pod to its gateways. Never throws. */
  async announce(
    attachment: Addressed,
    selection: Selection,
    options: CallOptions,
  ): Promise<void> {
    const { announcer } = this.#with;
    await announcer.announce(attachment, selection.targets, options);
  }

  /**
   * Makes a new pod a client. On failure nothing of it is left in the pod.
   *
   * @throws {FouUnsupportedError} when the kernel cannot
   * @throws {InvalidNetworkError} when the pod's addresses are not known
   * @throws {NetlinkError} when the kernel refuses
   */
  async setUp(
    attachment: Attachment & Pick<Connected, "freshMtu">,
    selection: Selection,
    { netns, signal }: CallOptions & { readonly netns: Netns },
  ): Promise<void> {
    assertAddressed(attachment);
    const plan = this.#planner.plan(attachment, selection.gateways);
    try {
      const { freshMtu } = attachment;
      const fresh = freshMtu === undefined ? {} : { freshMtu };
      await this.#applier.apply(plan, {
        client: { attachment, gateways: selection.gateways },
        netns,
        signal,
        ...fresh,
      });
    } catch (error) {
      await this.#applier.takeBack(netns);
      throw error;
    }
    this.#settle(attachment, { plan, selection, isNew: true });
    const lost = lostOf(selection.gateways, this.#with.health);
    this.#endings.noteLeft(attachment, lost);
  }

  /**
   * Makes a pod what its annotations say now: a client, another one, or none.
   *
   * @throws as `setUp()`; what is to be refused is refused even so
   */
  async update(
    attachment: Attachment,
    pod: V1Pod,
    { signal }: CallOptions,
  ): Promise<UpdateOutcome> {
    const annotations = pod.metadata?.annotations ?? {};
    const selection = await this.#planner.select(annotations, { signal });
    if (selection === undefined) return await this.#clear(attachment);
    const state = this.#states.get(attachment.key);
    const known = gatewaysOf(state);
    const { gateways: recalled, lost } = recall(selection, known);
    const gateways = keepChoices(
      recalled,
      ({ name }) => known.get(name)?.direct !== undefined,
    );
    const plan = this.#planner.plan(attachment, gateways);
    // What is lost may change on the way: some are recalled.
    const leave = () =>
      this.#endings.leave(attachment, {
        gateways,
        lost: lostOf(gateways, this.#with.health),
        isNew: known.size === 0,
      });
    const gone = goneOf(gateways, known);
    const isDone = lost.length + gone.length === 0;
    if (isDone && isSettled(state, planText(plan))) {
      const settled = { ...selection, gateways };
      this.#settle(attachment, { plan, selection: settled });
      return await leave();
    }
    using netns = await attachment.openNetns();
    if (netns === undefined) return "not found";
    if (await this.#choose(attachment, { plan, gateways, netns })) {
      return "again";
    }
    const refused = lost.length === 0
      ? []
      : await this.#with.plane.refused({ netns });
    // What was chosen before a start is known from the kernel alone.
    const kept = state === undefined
      ? await readChosen(plan, { ...this.#with, gateways, netns })
      : gateways;
    try {
      // While their packets take the old way; on another one only those that send would notice.
      await this.#endings.end(attachment, gone, { netns });
    } finally {
      await this.#converge(attachment, {
        netns,
        signal,
        selection,
        gateways: [...kept, ...unknownGateways(lost, refused, gateways)],
      });
    }
    return await leave();
  }

  /**
   * The first step of an update, a fraction of a millisecond: new connections
   * leave gateways that are not to be chosen, and go to those that are, as far
   * as the pod has ways to them. The others follow when each pod has had its
   * first. False when there is nothing to do.
   */
  async #choose(
    attachment: Attachment,
    { plan, gateways, netns }: {
      readonly plan: ClientPlan;
      readonly gateways: readonly ClientGateway[];
      readonly netns: Netns;
    },
  ): Promise<boolean> {
    const before = this.#states.get(attachment.key);
    if (before?.kind !== "client") return false;
    const next = firstStep(before, { plan, gateways }, (left) => {
      const kept = [...before.gateways.values()];
      return this.#planner.plan(attachment, kept, { left });
    });
    if (next === undefined) return false;
    this.#remember(attachment, {
      kind: "unsettled",
      gateways: before.gateways,
    });
    await this.#with.plane.choose(next.plan, { netns });
    this.#remember(attachment, {
      ...before,
      gateways: next.gateways,
      plan: planText(next.plan),
    });
    return true;
  }

  /** True when the pod is known to be no client. */
  isNone({ key }: Attachment): boolean {
    return this.#states.get(key)?.kind === "none";
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
    const plan = this.#planner.plan(attachment, [...gateways.values()]);
    // Gateways that are lost may be in it by another way.
    if (!isSettled(state, planText(plan))) return [];
    using netns = await attachment.openNetns();
    if (netns === undefined) return [];
    const problems = await this.#with.plane.inspect(plan, { netns });
    if (problems.length > 0) {
      this.#remember(attachment, { kind: "unsettled", gateways });
    }
    return problems;
  }

  forget(key: AttachmentKey): void {
    this.#states.delete(key);
    this.#endings.forget(key);
    this.#with.reports.forget(key);
  }

  /** Where there can be no tunnels, what would go through them is refused. */
  async #converge(
    attachment: Attachment,
    { selection, gateways, netns, signal }: CallOptions & {
      readonly selection: Selection;
      readonly gateways: readonly ClientGateway[];
      readonly netns: Netns;
    },
  ): Promise<void> {
    this.#remember(attachment, {
      kind: "unsettled",
      gateways: byName(gateways),
    });
    const plan = this.#planner.plan(attachment, gateways);
    try {
      const client = { attachment, gateways };
      await this.#applier.apply(plan, { client, netns, signal });
    } catch (error) {
      if (!(error instanceof FouUnsupportedError)) throw error;
      const closed = gateways.map((gateway) => ({ ...gateway, service: {} }));
      const options = { netns, signal };
      await this.#with.plane.apply(
        this.#planner.plan(attachment, closed),
        options,
      );
      throw error;
    }
    const known = { ...selection, gateways };
    this.#settle(attachment, { plan, selection: known });
    log.info("Updated an egress client", {
      ...attachment.pod,
      gateways: gateways.map(({ name }) => name),
    });
  }

  async #clear(attachment: Attachment): Promise<UpdateOutcome> {
    if (this.isNone(attachment)) return "done";
    using netns = await attachment.openNetns();
    if (netns === undefined) return "not found";
    if (await this.#with.plane.clear({ netns })) {
      log.info("Ended an egress client", { ...attachment.pod });
    }
    this.#remember(attachment, { kind: "none", isUnseen: false });
    this.#with.reports.tell(attachment, { conditions: [] });
    return "done";
  }

  #settle(
    attachment: Attachment,
    { plan, selection, isNew = false }: {
      readonly plan: ClientPlan;
      readonly selection: Selection;
      readonly isNew?: boolean;
    },
  ): void {
    this.#remember(attachment, {
      kind: "client",
      gateways: byName(selection.gateways),
      plan: planText(plan),
      isVisible: plan.families.length > 0,
    });
    this.#with.reports.tell(attachment, {
      conditions: conditionsOf(selection, plan),
      ends: endsOf(selection, plan),
      isNew,
    });
  }

  #remember({ key }: Attachment, state: ClientState): void {
    this.#states.set(key, state);
  }
}

/** A client without addresses would send by its own way what no tunnel is made for. */
function assertAddressed({ addresses, pod }: Attachment): void {
  if (valuesOf(addresses).length > 0) return;
  throw new InvalidNetworkError(
    `Cannot make pod "${
      podKey(pod)
    }" an egress client: the previous plugin returned no address of interface "${POD_INTERFACE}"`,
  );
}
