import { abortable, type TaskGroup } from "../../lib/async/mod.ts";
import {
  Controller,
  type Informer,
  type KubeClient,
  type KubeMetrics,
} from "../../lib/kube/mod.ts";
import type { HeapKeeper } from "../../lib/linux/mod.ts";
import { clientPods } from "./clients/client_pods.ts";
import { defaultEgresses } from "./clients/default_egresses.ts";
import type { CachedPod } from "./base/cached_pod.ts";

export interface PodsPartOptions {
  /** Whether the addresses of pods that use no Egress are kept. */
  readonly everyAddress: boolean;
  /** Whether annotations of namespaces count for their pods. */
  readonly namespaceEgress: boolean;
  readonly kubeMetrics?: KubeMetrics;
  readonly heap: Pick<HeapKeeper, "note">;
}

/** Starts the one watch of the cluster's pods in the group, for both halves of the controller. */
export function openPods(
  client: KubeClient,
  group: TaskGroup,
  options: PodsPartOptions,
): Informer<CachedPod> {
  const { everyAddress, namespaceEgress, heap } = options;
  const onRead = () => heap.note();
  const namespaces = namespaceEgress ? defaultEgresses(client) : undefined;
  const pods = clientPods(client, {
    onRead,
    everyAddress,
    defaultsOf: (name) => namespaces?.store.get(name)?.metadata?.annotations,
  });
  // All pods at once, when they have been read for the first time.
  pods.subscribe(onRead);
  group.run("pod informer", async (signal) => {
    if (namespaces !== undefined) await abortable(namespaces.synced, signal);
    await pods.run(signal);
  });
  if (namespaces !== undefined) {
    group.run("namespace informer", (signal) => namespaces.run(signal));
    // Of pods that used no Egress nothing was kept.
    const refresher = new Controller({
      name: "namespace-egress",
      metrics: options.kubeMetrics,
      reconcile: (namespace, signal) => pods.refresh(namespace, { signal }),
    });
    group.run(refresher.name, async (signal) => {
      await abortable(namespaces.synced, signal);
      using _subscription = namespaces.subscribe(({ key }) =>
        refresher.enqueue(key)
      );
      await refresher.run(signal);
    });
  }
  return pods;
}
