import { type Controller, splitKey } from "../../../lib/kube/mod.ts";
import { APP_INSTANCE_LABEL } from "../../../lib/names/mod.ts";
import type { EgressCluster } from "./cluster.ts";

type Queue = Pick<Controller, "enqueue">;

/** Turns watch events into keys, until the result is disposed of. */
export function subscribeEgress(
  cluster: EgressCluster,
  { egresses, namespaces, bindings }: {
    readonly egresses: Queue;
    /** Those whose role binding may be left over. */
    readonly namespaces: Queue;
    /** ClusterRoleBindings. */
    readonly bindings: Queue;
  },
): Disposable {
  const stack = new DisposableStack();
  // What is there already counts as new: this leader has seen nothing of it.
  const all = { replay: true };
  const { deployments, services, budgets, pods } = cluster;
  const allOf = (key: string) => {
    const { namespace = "" } = splitKey(key);
    for (const { metadata } of cluster.liveEgresses(namespace)) {
      egresses.enqueue(`${namespace}/${metadata.name}`);
    }
    namespaces.enqueue(namespace);
  };
  stack.use(cluster.egresses.subscribe(({ key }) => {
    egresses.enqueue(key);
    namespaces.enqueue(splitKey(key).namespace ?? "");
    for (const name of cluster.clusterRoleBindings.keys()) {
      bindings.enqueue(name);
    }
  }, all));
  // What an Egress owns has its name.
  for (const informer of [services, budgets]) {
    stack.use(informer.subscribe(({ key }) => egresses.enqueue(key), all));
  }
  stack.use(deployments.subscribe(({ key }) => egresses.enqueue(key), all));
  stack.use(pods.subscribe(({ type, object }) => {
    // Others report themselves by their status.
    if (type !== "deleted") return;
    const { namespace = "", labels = {} } = object.metadata ?? {};
    egresses.enqueue(`${namespace}/${labels[APP_INSTANCE_LABEL]}`);
  }));
  for (const informer of [cluster.accounts, cluster.roleBindings]) {
    stack.use(informer.subscribe(({ key }) => allOf(key), all));
  }
  for (const [name, informer] of cluster.clusterRoleBindings) {
    stack.use(informer.subscribe(() => bindings.enqueue(name), all));
  }
  return stack;
}
