import type { TaskGroup } from "../../lib/async/mod.ts";
import type { Informer, KubeClient } from "../../lib/kube/mod.ts";
import { HeapKeeper } from "../../lib/linux/mod.ts";
import { clientPods } from "./clients/client_pods.ts";
import type { CachedPod } from "./common/cached_pod.ts";

/** Starts the one watch of the cluster's pods in the group, for both halves of the controller. */
export function openPods(
  client: KubeClient,
  group: TaskGroup,
  { everyAddress, heap = new HeapKeeper() }: {
    readonly everyAddress: boolean;
    /** Replaced in tests. */
    readonly heap?: Pick<HeapKeeper, "note" | "run">;
  },
): Informer<CachedPod> {
  const onRead = () => heap.note();
  const pods = clientPods(client, { onRead, everyAddress });
  // All pods at once, when they have been read for the first time.
  pods.subscribe(onRead);
  group.run("pod informer", (signal) => pods.run(signal));
  group.run("pod heap keeper", (signal) => heap.run(signal));
  return pods;
}
