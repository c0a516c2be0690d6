import type {
  GatewayGroup,
  GatewaySelection,
} from "../../../lib/egress/mod.ts";
import { type Address, valuesOf } from "../../../lib/inet/mod.ts";
import { splitKey } from "../../../lib/kube/mod.ts";
import type { Netns } from "../../../lib/linux/mod.ts";
import type { AttachmentKey } from "../../../lib/cni/mod.ts";
import type { Announcer } from "../gateways/announcer.ts";
import { applyPlan, takeBack } from "./applier.ts";
import { ClientBook } from "../clients/client_book.ts";
import { type ClientState, gatewaysOf } from "../clients/client_state.ts";
import type { CallOptions, Connected } from "../calls/attachments.ts";
import type { ConditionReason } from "../clients/conditions.ts";
import { ConnectionEndings, type ConnectionEndingsOptions } from "./endings.ts";
import type { EgressPlane } from "./plane.ts";
import { ClientPlanner, type ClientPlannerOptions } from "./planner.ts";
import type { EgressReports } from "../clients/reports.ts";
import { SeenNamespaces } from "./seen_namespaces.ts";
import type { EgressSource } from "../gateways/source.ts";
import {
  EgressNotFoundError,
  InvalidEgressError,
  InvalidNetworkError,
} from "../base/errors.ts";
import { type GatewayHealthView, lostOf } from "../gateways/chosen_gateways.ts";
import type { PodFacts } from "../cluster/pod_source.ts";
import {
  type Addressed,
  type Attachment,
  POD_INTERFACE,
} from "../calls/attachment.ts";
import { ClientUpdates, type UpdateOutcome } from "./updates.ts";
import { nameText } from "../../../lib/names/mod.ts";

export interface EgressSetupOptions
  extends ClientPlannerOptions, ConnectionEndingsOptions {
  readonly source: Pick<EgressSource, "find" | "read" | "isFollowed">;
  readonly plane: EgressPlane;
  readonly announcer: Pick<Announcer, "announce">;
  readonly reports: EgressReports;
  readonly health: GatewayHealthView;
}

/**
 * Makes clients of Egresses of pods, and keeps them so: from what annotations
 * and the API server say, by a plan, to the kernel. The caller has the lock of
 * the attachment.
 */
export class EgressSetup {
  readonly #with: EgressSetupOptions;
  readonly #book: ClientBook;
  readonly #planner: ClientPlanner;
  readonly #endings: ConnectionEndings;
  readonly #namespaces = new SeenNamespaces();
  readonly #updates: ClientUpdates;

  constructor(options: EgressSetupOptions) {
    this.#with = options;
    this.#book = new ClientBook(options.reports);
    this.#planner = new ClientPlanner(options);
    this.#endings = new ConnectionEndings(options, this.#namespaces);
    const { plane, health } = options;
    this.#updates = new ClientUpdates({
      plane,
      health,
      book: this.#book,
      planner: this.#planner,
      endings: this.#endings,
      namespaces: this.#namespaces,
    });
  }

  /** How many pods are clients. */
  get clients(): number {
    return this.#book.states.clients;
  }

  /** The gateways that clients choose from. */
  get chosenFrom(): readonly GatewayGroup[] {
    return this.#book.states.chosenFrom;
  }

  /** Those of them that take new connections, as far as the API server says; as text. */
  get ready(): ReadonlySet<string> {
    return this.#book.states.ready;
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
  ): Promise<GatewaySelection | undefined> {
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
    if (this.#book.states.get(attachment.key) !== undefined) return;
    this.#book.states.set(attachment.key, { kind: "none", isUnseen: true });
  }

  /**
   * Whether a pod's network may be other than its state says. True once for a pod
   * whose namespace was not looked into; then its next update looks. A runtime may
   * add a container again after its DEL, in the namespace that an earlier ADD had
   * made a client's. Always true for a client while its gateways are not watched.
   */
  doubt({ key }: Attachment): boolean {
    const state = this.#book.states.get(key);
    if (state?.kind !== "none") return this.#isUnreported(state);
    if (!state.isUnseen) return false;
    this.#book.states.delete(key);
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
    selection: GatewaySelection,
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
    selection: GatewaySelection,
    { netns, signal }: CallOptions & { readonly netns: Netns },
  ): Promise<void> {
    assertAddressed(attachment);
    const { health, plane } = this.#with;
    const plan = this.#planner.plan(attachment, selection.gateways);
    const done = { plan, selection, isNew: true };
    try {
      const { awaitsAddress } = await applyPlan(plan, {
        plane,
        client: { attachment, gateways: selection.gateways },
        netns,
        signal,
        freshMtu: attachment.freshMtu,
      });
      this.#book.settle(attachment, { ...done, awaitsAddress });
    } catch (error) {
      await takeBack(plane, netns);
      throw error;
    }
    this.#namespaces.note(attachment.key, netns);
    this.#endings.noteLeft(attachment, lostOf(selection.gateways, health));
  }

  /** Makes a pod what the annotations say: {@linkcode ClientUpdates.update}. */
  update(
    attachment: Attachment,
    annotations: Readonly<Record<string, string>>,
    options: CallOptions,
  ): Promise<UpdateOutcome> {
    return this.#updates.update(attachment, annotations, options);
  }

  /** True when the pod is known to be no client. */
  isNone({ key }: Attachment): boolean {
    return this.#book.states.get(key)?.kind === "none";
  }

  /** What differs now in the network of a client: {@linkcode ClientUpdates.findDamage}. */
  findDamage(attachment: Attachment): Promise<readonly string[]> {
    return this.#updates.findDamage(attachment);
  }

  forget(key: AttachmentKey): void {
    this.#endings.forget(key);
    this.#namespaces.forget(key);
    this.#book.forget(key);
  }
}

/** A client without addresses would send by its own way what no tunnel is made for. */
function assertAddressed({ addresses, pod }: Attachment): void {
  if (valuesOf(addresses).length > 0) return;
  throw new InvalidNetworkError(
    `Cannot make pod "${
      nameText(pod)
    }" an egress client: the previous plugin returned no address of interface "${POD_INTERFACE}"`,
  );
}
