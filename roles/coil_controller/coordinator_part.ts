import {
  SPIDER_COORDINATOR_NAME,
  SPIDER_COORDINATORS,
} from "../../lib/api/mod.ts";
import { abortable, TaskGroup } from "../../lib/async/mod.ts";
import {
  Controller,
  type EventRecorder,
  Informer,
  type KubeClient,
  type KubeMetrics,
} from "../../lib/kube/mod.ts";
import { SpiderReconciler } from "./coordinator/reconciler.ts";

/** Networks of a cluster hardly ever change. */
const INTERVAL_MS = 10_000;

export interface CoordinatorPartOptions {
  readonly client: KubeClient;
  readonly events: EventRecorder;
  readonly kubeMetrics: KubeMetrics;
  /** About how often the cluster's networks are looked up. Default 10 s. */
  readonly networksIntervalMs?: number | undefined;
}

/** Starts the cache of the SpiderCoordinator in the group, and returns what a leader does with it. */
export function openCoordinator(
  options: CoordinatorPartOptions,
  group: TaskGroup,
): (leading: AbortSignal) => Promise<void> {
  const { client, events, kubeMetrics } = options;
  const { networksIntervalMs: intervalMs = INTERVAL_MS } = options;
  const informer = new Informer(client, SPIDER_COORDINATORS, {
    fieldSelector: `metadata.name=${SPIDER_COORDINATOR_NAME}`,
  });
  group.run("spidercoordinator informer", (signal) => informer.run(signal));
  return async (leading) => {
    await using led = new TaskGroup({ signal: leading });
    await abortable(informer.synced, led.signal);
    const reconciler = new SpiderReconciler({
      client,
      resources: informer.store,
      intervalMs,
      onEvent: ({ apiVersion, kind, metadata }, event) => {
        const { name = "", uid = "" } = metadata;
        events.event({ apiVersion, kind, name, uid }, event);
      },
    });
    const controller = new Controller({
      name: "spidercoordinator",
      metrics: kubeMetrics,
      reconcile: (name, signal) => reconciler.reconcile(name, signal),
    });
    const all = { replay: true };
    using _changes = informer.subscribe(
      ({ key }) => controller.enqueue(key),
      all,
    );
    led.run(controller.name, (signal) => controller.run(signal));
    await led.wait();
  };
}
