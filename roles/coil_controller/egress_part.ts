import { type Egress, EGRESSES } from "../../lib/api/mod.ts";
import { TaskGroup } from "../../lib/async/mod.ts";
import {
  Controller,
  type EventInfo,
  type EventRecorder,
  type Informer,
  type KubeClient,
  type KubeMetrics,
  referenceTo,
} from "../../lib/kube/mod.ts";
import type { HeapKeeper } from "../../lib/linux/mod.ts";
import { getLogger, type Registry } from "../../lib/telemetry/mod.ts";
import { clientCount } from "./clients/client_pods.ts";
import type { ClientSlices } from "./clients/client_slices.ts";
import { connectClients } from "./clients_part.ts";
import type { CachedPod } from "./base/cached_pod.ts";
import { EgressAccess } from "./egress/access.ts";
import { EgressApplier } from "./egress/applier.ts";
import { EgressBindings } from "./egress/bindings.ts";
import { EgressCluster } from "./egress/cluster.ts";
import { DeploymentKeeper } from "./egress/deployment_keeper.ts";
import { createdEvent } from "./egress/events.ts";
import { EgressImage, type EgressImageOptions } from "./gateway/image.ts";
import type { GatewaySettings } from "./gateway/plan.ts";
import { observeEgresses } from "./egress/metrics.ts";
import { EgressReconciler } from "./egress/reconciler.ts";
import { subscribeEgress } from "./egress/subscriptions.ts";

const log = getLogger("setup");

const CONCURRENT_EGRESSES = 4;

/** Of pods that come one after the other, the number is looked at once in this time: each look also tries again what was refused. */
const COUNT_MS = 10_000;

/** One Egress makes as much garbage as so many pods. */
const OBJECTS = 50;

export interface EgressPartOptions {
  readonly client: KubeClient;
  readonly events: EventRecorder;
  /** Receives what the controllers' own metrics are made of. */
  readonly kubeMetrics: KubeMetrics;
  readonly registry: Registry;
  /** The pods that use Egresses, followed by who gives them. */
  readonly pods: Informer<CachedPod>;
  /** Receives what was gone through: a new leader goes through all Egresses at once. */
  readonly heap: Pick<HeapKeeper, "note">;
  readonly settings: GatewaySettings;
  readonly image: Omit<EgressImageOptions, "client">;
  /** The least time between two writes of an Egress' numbers. Default one minute. */
  readonly statusIntervalMs?: number | undefined;
}

/**
 * Starts the caches of Egresses and of what belongs to them in the group, and returns what a leader does with them: a standby that
 * becomes the leader lists nothing again.
 */
export function openEgress(
  options: EgressPartOptions,
  group: TaskGroup,
): (leading: AbortSignal) => Promise<void> {
  const cluster = new EgressCluster(options.client, options.pods);
  cluster.start(group);
  observeEgresses(options.registry, cluster.egresses.store);
  return (leading) => leadEgress(options, cluster, leading);
}

async function leadEgress(
  options: EgressPartOptions,
  cluster: EgressCluster,
  signal: AbortSignal,
): Promise<void> {
  await using group = new TaskGroup({ signal });
  const { client, kubeMetrics: metrics, statusIntervalMs, heap } = options;
  const countMs = Math.min(COUNT_MS, statusIntervalMs ?? COUNT_MS);
  await cluster.synced(group.signal);
  const applier = new EgressApplier(client);
  const access = new EgressAccess({ client, cluster, applier });
  const bindings = new EgressBindings({
    client,
    cluster,
    onProblem() {
      for (const key of cluster.egresses.store.keys()) egresses.enqueue(key);
    },
  });
  using clients = connectClients({
    client,
    cluster,
    metrics,
    onWritten(key) {
      heap.note(clientCount(cluster.clients, key));
      egresses.enqueue(key, { afterMs: countMs });
    },
  });
  const { slices, controller: clientsOf } = clients;
  const parts: Dependencies = { cluster, applier, access, bindings, slices };
  const reconciler = makeReconciler(options, parts);
  const egresses = new Controller({
    name: "egress",
    concurrency: CONCURRENT_EGRESSES,
    metrics,
    reconcile: (key, s) =>
      reconciler.reconcile(key, s).finally(() => heap.note(OBJECTS)),
  });
  const rights = rightsControllers(parts, metrics);
  using _subscriptions = subscribeEgress(cluster, { egresses, ...rights });
  log.info("Serving egresses", { egresses: cluster.egresses.store.size });
  for (const controller of [egresses, clientsOf, ...Object.values(rights)]) {
    group.run(controller.name, (s) => controller.run(s));
  }
  await group.wait();
}

interface Dependencies {
  readonly cluster: EgressCluster;
  readonly applier: EgressApplier;
  readonly access: EgressAccess;
  readonly bindings: EgressBindings;
  readonly slices: ClientSlices;
}

/** Those of what gateways may do. */
function rightsControllers(
  parts: Dependencies,
  metrics: KubeMetrics,
) {
  const namespaces = new Controller({
    name: "egress-namespace",
    metrics,
    reconcile: (namespace, s) => parts.access.reconcile(namespace, s),
  });
  const bindings = new Controller({
    name: "egress-binding",
    metrics,
    reconcile: (name, s) => parts.bindings.reconcile(name, s),
  });
  return { namespaces, bindings };
}

function makeReconciler(
  { client, events, settings, image, statusIntervalMs }: EgressPartOptions,
  { cluster, applier, access, bindings, slices }: Dependencies,
): EgressReconciler {
  const onEvent = (egress: Egress, event: EventInfo) =>
    events.event(referenceTo(EGRESSES, egress), event);
  const deployments = new DeploymentKeeper({
    client,
    cluster,
    applier,
    image: new EgressImage({ client, ...image }),
    settings,
    onCreated: (egress) =>
      onEvent(egress, createdEvent(egress, { kind: "Deployment" })),
  });
  return new EgressReconciler({
    client,
    cluster,
    applier,
    access,
    deployments,
    slices,
    settings,
    commonProblem: () => bindings.problem,
    onEvent,
    statusIntervalMs,
  });
}
