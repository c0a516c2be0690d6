import { BoundedMap } from "../../lib/async/mod.ts";
import {
  Controller,
  type KubeClient,
  type KubeMetrics,
} from "../../lib/kube/mod.ts";
import { egressesOf } from "./clients/client_pods.ts";
import {
  ClientSlices,
  type ClientSlicesOptions,
  egressesOfSlice,
} from "./clients/client_slices.ts";
import type { EgressCluster } from "./egress/cluster.ts";

const CONCURRENT_EGRESSES = 4;

/** Changes that come together are written together. */
const TOGETHER_MS = 5;

/** The time between two writes for an Egress: of many pods that start one after the other, several are written together. */
const INTERVAL_MS = 50;

/** Egresses of which it is known when they were written last; pods may name any that do not exist. */
const MAX_KEYS = 1_024;

/** Writer of EgressClientSlices, with its triggers; disposal ends these. */
export interface ClientsPart extends Disposable {
  readonly slices: ClientSlices;
  readonly controller: Controller;
}

/** Connects what is known of pods and Egresses to the EgressClientSlices. */
export function connectClients(
  { client, cluster, metrics, onWritten }: {
    readonly client: KubeClient;
    readonly cluster: Pick<EgressCluster, "egresses" | "slices"> & {
      readonly clients: ClientSlicesOptions["pods"];
    };
    readonly metrics?: KubeMetrics;
    /** The clients of an Egress may have changed. */
    readonly onWritten?: (egress: string) => void;
  },
): ClientsPart {
  const { egresses, clients: pods } = cluster;
  const slices = new ClientSlices({
    client,
    egresses,
    pods,
    slices: cluster.slices,
  });
  const lastMs = new BoundedMap<string, number>(MAX_KEYS);
  const controller = new Controller({
    name: "egress-clients",
    concurrency: CONCURRENT_EGRESSES,
    metrics,
    reconcile: async (key, signal) => {
      lastMs.set(key, performance.now());
      await slices.reconcile(key, signal);
      onWritten?.(key);
    },
  });
  const enqueue = (keys: Iterable<string>) => {
    for (const key of new Set(keys)) {
      const sinceMs = performance.now() - (lastMs.get(key) ?? -Infinity);
      const afterMs = Math.max(TOGETHER_MS, INTERVAL_MS - sinceMs);
      controller.enqueue(key, { afterMs });
    }
  };
  const stack = new DisposableStack();
  const all = { replay: true };
  // mutate: the reconciler of Egresses has a new one's slices written, too; of one that is gone this only frees memory.
  stack.use(egresses.subscribe(({ key }) => enqueue([key]), all));
  // The pods that are there are in the store, and each Egress has its turn anyway: to go through 150,000 takes 35 MiB.
  stack.use(pods.subscribe(({ object, before = object }) => {
    enqueue([...egressesOf(object), ...egressesOf(before)]);
  }));
  stack.use(cluster.slices.subscribe(({ object, before = object }) => {
    enqueue([...egressesOfSlice(object), ...egressesOfSlice(before)]);
  }, all));
  return {
    slices,
    controller,
    [Symbol.dispose]: () => stack.dispose(),
  };
}
