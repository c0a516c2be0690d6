import {
  type Egress,
  EGRESSES,
  type EgressProblem,
  egressStatus,
  egressStatusEquals,
  isEgressStatusNews,
} from "../../../lib/api/mod.ts";
import type { Clock } from "../../../lib/async/mod.ts";
import {
  type EventInfo,
  keyOf,
  type KubeClient,
  POD_DISRUPTION_BUDGETS,
  type ReconcileResult,
  SERVICES,
  splitKey,
} from "../../../lib/kube/mod.ts";
import type { EgressAccess } from "./access.ts";
import type { EgressApplier } from "./applier.ts";
import type { EgressCluster } from "./cluster.ts";
import { deleteIfThere } from "../base/delete.ts";
import { WritePace } from "../base/write_pace.ts";
import type { DeploymentKeeper } from "./deployment_keeper.ts";
import { clientCount } from "../clients/client_pods.ts";
import type { ClientSlices } from "../clients/client_slices.ts";
import { reapGateways } from "./gateways.ts";
import {
  type GatewaySettings,
  planDisruptionBudget,
  planService,
} from "../gateway/plan.ts";
import { createdEvent, egressEvents } from "./events.ts";
import { type LossChange, LossEvents } from "./loss_events.ts";
import { ownerCheck, problemOf, targetOf } from "../gateway/problems.ts";
import type { OwnedDeployment } from "../gateway/transform.ts";
import { workloadOf } from "../gateway/workload.ts";
import { WrittenStatuses } from "./written.ts";

export interface EgressReconcilerOptions {
  readonly client: KubeClient;
  readonly cluster: EgressCluster;
  readonly applier: EgressApplier;
  readonly access: EgressAccess;
  readonly deployments: DeploymentKeeper;
  readonly slices: ClientSlices;
  readonly settings: GatewaySettings;
  /** What keeps the gateways of every Egress from working. */
  readonly commonProblem: () => EgressProblem | undefined;
  readonly onEvent: (egress: Egress, event: EventInfo) => void;
  /** The least time between two writes of numbers. Default one minute. */
  readonly statusIntervalMs?: number | undefined;
  readonly clock?: Clock;
  /** See {@linkcode WritePace}. */
  readonly random?: () => number;
}

/** Nodes follow the Egresses of their pods: a status whose numbers alone have changed is not written more often. */
const STATUS_INTERVAL_MS = 60_000;

/** Makes what an Egress needs, and writes the result into its status. */
export class EgressReconciler {
  readonly #options: EgressReconcilerOptions;
  readonly #written = new WrittenStatuses();
  readonly #losses = new LossEvents();
  readonly #pace: WritePace;

  constructor(options: EgressReconcilerOptions) {
    this.#options = options;
    const { statusIntervalMs: intervalMs = STATUS_INTERVAL_MS } = options;
    const { clock, random } = options;
    this.#pace = new WritePace({ intervalMs, clock, random });
  }

  /**
   * Brings the Egress of the key `namespace/name` up to date.
   *
   * @throws {Error} when the API server did not take something, after the status says so
   */
  async reconcile(key: string, signal: AbortSignal): Promise<ReconcileResult> {
    const { cluster, access, slices, deployments } = this.#options;
    const egress = cluster.egresses.store.get(key);
    if (egress === undefined) return this.#forget(key);
    if (egress.metadata.deletionTimestamp !== undefined) return;
    const failures: Failure[] = [];
    const attempt = attempter(failures);
    const namespace = egress.metadata.namespace ?? "";
    await attempt(
      { kind: "RoleBinding", isFatal: true },
      () => access.ensure(namespace, { signal }),
    );
    const hasClients = await attempt(
      { kind: "EgressClientSlice", isFatal: true },
      async () => {
        await slices.ensure(egress, { signal });
        // mutate: any value but undefined says the same.
        return true;
      },
    );
    // Gateways that started without knowing their clients would drop these' packets.
    const deployment = hasClients === undefined ? undefined : await attempt(
      { kind: "Deployment", isFatal: true },
      () => deployments.keep(egress, { signal }),
    );
    await attempt(
      { kind: "Service", isFatal: true },
      () => this.#keepService(egress, signal),
    );
    await attempt(
      { kind: "PodDisruptionBudget", isFatal: false },
      () => this.#keepBudget(egress, signal),
    );
    // mutate: the watch brings the same Deployment, a moment later.
    const result = await this.#writeStatus(egress, {
      deployment: deployment ?? cluster.deployments.store.get(key),
      failures,
      signal,
    });
    const [first] = failures;
    if (first === undefined) return result;
    throw new Error(
      failures.map(({ problem }) => problem.message).join("; "),
      { cause: first.error },
    );
  }

  /** What an Egress owns goes with it; nothing is left but what we know of it. */
  // mutate: only frees memory; another Egress of the name has another UID.
  #forget(key: string): void {
    const { namespace = "", name } = splitKey(key);
    const { applier, deployments } = this.#options;
    deployments.forget({ namespace, name });
    applier.forget(SERVICES, { namespace, name });
    applier.forget(POD_DISRUPTION_BUDGETS, { namespace, name });
    this.#written.forget(key);
    this.#losses.forget(key);
    this.#pace.forget(key);
  }

  async #keepService(egress: Egress, signal: AbortSignal): Promise<void> {
    const { cluster, applier, settings } = this.#options;
    const target = targetOf(egress);
    const { isNew } = await applier.apply(SERVICES, {
      ...target,
      plan: planService(egress, settings),
      live: cluster.services.store.get(keyOf(egress)),
      check: ownerCheck(egress, "Service"),
      signal,
    });
    if (isNew) this.#reportCreated(egress, "Service");
  }

  async #keepBudget(egress: Egress, signal: AbortSignal): Promise<void> {
    const { client, cluster, applier } = this.#options;
    const target = targetOf(egress);
    const live = cluster.budgets.store.get(keyOf(egress));
    const plan = planDisruptionBudget(egress);
    if (plan !== undefined) {
      const { isNew } = await applier.apply(POD_DISRUPTION_BUDGETS, {
        ...target,
        plan,
        live,
        check: ownerCheck(egress, "PodDisruptionBudget"),
        signal,
      });
      if (isNew) this.#reportCreated(egress, "PodDisruptionBudget");
      return;
    }
    // mutate: only frees memory.
    applier.forget(POD_DISRUPTION_BUDGETS, target);
    const { uid, ownerReferences = [] } = live?.metadata ?? {};
    const isOurs = ownerReferences.some((o) => o.uid === egress.metadata.uid);
    if (!isOurs) return;
    await deleteIfThere(client, POD_DISRUPTION_BUDGETS, {
      ...target,
      preconditions: { uid },
      signal,
    });
  }

  async #writeStatus(
    egress: Egress,
    { deployment, failures, signal }: {
      readonly deployment: OwnedDeployment | undefined;
      readonly failures: readonly Failure[];
      readonly signal: AbortSignal;
    },
  ): Promise<ReconcileResult> {
    const { client, cluster, onEvent } = this.#options;
    const key = keyOf(egress);
    const before = this.#written.newest(key, egress);
    const common = this.#options.commonProblem();
    const gateways = await reapGateways(egress, {
      client,
      pods: cluster.pods.store,
      signal,
    });
    const known = { ...egress, ...before && { status: before } };
    const now = new Date();
    const status = egressStatus(known, {
      ...(deployment === undefined ? {} : { workload: workloadOf(deployment) }),
      problems: [
        ...(common === undefined ? [] : [common]),
        ...failures.map(({ problem }) => problem),
      ],
      clients: clientCount(cluster.clients, key),
      gateways,
      now,
    });
    const change = { before, after: status, gateways, nowMs: now.getTime() };
    if (egressStatusEquals(before, status)) {
      return this.#reportLosses(egress, change);
    }
    const isNews = isEgressStatusNews(before, status);
    const requeueAfterMs = isNews ? 0 : this.#pace.waitMs(key);
    if (requeueAfterMs > 0) {
      this.#reportLosses(egress, change);
      return { requeueAfterMs };
    }
    const { uid } = egress.metadata;
    // The UID: a later Egress of this name has a status of its own.
    const patch = { metadata: { uid }, status };
    const target = { ...targetOf(egress), signal };
    const options = {
      kind: "apply",
      force: true,
      subresource: "status",
    } as const;
    this.#written.keep(
      key,
      await client.patch(EGRESSES, target, patch, options),
    );
    this.#pace.wrote(key);
    for (const event of egressEvents(before, status)) onEvent(egress, event);
    this.#reportLosses(egress, change);
  }

  /** Also where nothing is written: the gateways' entries say more than the status. */
  #reportLosses(egress: Egress, change: LossChange): void {
    const events = this.#losses.take(keyOf(egress), change);
    for (const event of events) this.#options.onEvent(egress, event);
  }

  #reportCreated(egress: Egress, kind: string): void {
    this.#options.onEvent(egress, createdEvent(egress, { kind }));
  }
}

/** A refused object, with the error. */
interface Failure {
  readonly problem: EgressProblem;
  readonly error: unknown;
}

/** Makes a function that does some work and notes what is refused, so that the rest is done nevertheless. */
function attempter(failures: Failure[]) {
  return async <T>(
    what: { readonly kind: string; readonly isFatal: boolean },
    work: () => Promise<T>,
  ): Promise<T | undefined> => {
    try {
      return await work();
    } catch (error) {
      failures.push({ problem: problemOf(error, what), error });
      return undefined;
    }
  };
}
