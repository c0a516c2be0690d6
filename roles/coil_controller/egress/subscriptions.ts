import { splitKey } from "../../../lib/kube/mod.ts";
import { APP_INSTANCE_LABEL } from "../../../lib/names/mod.ts";
import type { EgressCluster } from "./cluster.ts";

/** Who works on which keys. */
export interface EgressKeys {
  /** An Egress, as `namespace/name`. */
  readonly onEgress: (key: string) => void;
  /** A namespace whose role binding may be left over. */
  readonly onNamespace: (namespace: string) => void;
  /** A ClusterRoleBinding. */
  readonly onBinding: (name: string) => void;
}

/** Turns watch events into keys, until the result is disposed of. */
export function subscribeEgress(
  cluster: EgressCluster,
  { onEgress, onNamespace, onBinding }: EgressKeys,
): Disposable {
  const stack = new DisposableStack();
  // What is there already counts as new: this leader has seen nothing of it.
  const all = { replay: true };
  const { egresses, deployments, services, budgets, pods } = cluster;
  const allOf = (key: string) => {
    const { namespace = "" } = splitKey(key);
    for (const { metadata } of cluster.liveEgresses(namespace)) {
      onEgress(`${namespace}/${metadata.name}`);
    }
    onNamespace(namespace);
  };
  stack.use(egresses.subscribe(({ key }) => {
    onEgress(key);
    onNamespace(splitKey(key).namespace ?? "");
    for (const name of cluster.clusterRoleBindings.keys()) onBinding(name);
  }, all));
  // What an Egress owns has its name.
  for (const informer of [services, budgets]) {
    stack.use(informer.subscribe(({ key }) => onEgress(key), all));
  }
  stack.use(deployments.subscribe(({ key }) => onEgress(key), all));
  stack.use(pods.subscribe(({ type, object }) => {
    // Others report themselves by their status.
    if (type !== "deleted") return;
    const { namespace = "", labels = {} } = object.metadata ?? {};
    onEgress(`${namespace}/${labels[APP_INSTANCE_LABEL]}`);
  }));
  for (const informer of [cluster.accounts, cluster.roleBindings]) {
    stack.use(informer.subscribe(({ key }) => allOf(key), all));
  }
  for (const [name, informer] of cluster.clusterRoleBindings) {
    stack.use(informer.subscribe(() => onBinding(name), all));
  }
  return stack;
}
