import {
  type Egress,
  EGRESS_SELECTOR,
  type EgressClientSlice,
  EGRESSES,
} from "../../../lib/api/mod.ts";
import { abortable, type TaskGroup } from "../../../lib/async/mod.ts";
import {
  CLUSTER_ROLE_BINDINGS,
  DEPLOYMENTS,
  Informer,
  type KubeClient,
  type KubeObject,
  LIVE_PODS,
  POD_DISRUPTION_BUDGETS,
  PODS,
  ROLE_BINDINGS,
  SERVICE_ACCOUNTS,
  SERVICES,
  type V1ClusterRoleBinding,
} from "../../../lib/kube/mod.ts";
import {
  EGRESS_CLUSTER_ROLE_BINDING,
  EGRESS_PSP_BINDING,
  EGRESS_ROLE_BINDING,
  EGRESS_SERVICE_ACCOUNT,
} from "../../../lib/names/mod.ts";
import { sliceInformer } from "../clients/client_slices.ts";
import type { CachedPod } from "../base/cached_pod.ts";
import {
  type OwnedDeployment,
  type OwnedObject,
  transformBinding,
  transformDeployment,
  transformEgress,
  transformOwned,
  transformPod,
} from "../gateway/transform.ts";

/** Selects one object by its name, which the rights to watch can be limited to. */
const named = (name: string) => ({ fieldSelector: `metadata.name=${name}` });

/** Caches of the controller's egress half, kept up to date by watches. */
export class EgressCluster {
  /** Indexed by "namespace". */
  readonly egresses: Informer<Egress>;
  readonly deployments: Informer<OwnedDeployment>;
  readonly services: Informer<OwnedObject>;
  readonly budgets: Informer<OwnedObject>;
  /** Pods of Egresses that have not ended. */
  readonly pods: Informer<KubeObject>;
  /** Pods that use Egresses. Its owner runs it. */
  readonly clients: Informer<CachedPod>;
  readonly slices: Informer<EgressClientSlice>;
  readonly accounts: Informer<OwnedObject>;
  readonly roleBindings: Informer<OwnedObject>;
  /** By name. */
  readonly clusterRoleBindings: ReadonlyMap<
    string,
    Informer<V1ClusterRoleBinding>
  >;

  constructor(client: KubeClient, clients: Informer<CachedPod>) {
    const owned = { labelSelector: EGRESS_SELECTOR };
    this.egresses = new Informer(client, EGRESSES, {
      transform: transformEgress,
      indexes: { namespace: ({ metadata }) => [metadata.namespace ?? ""] },
    });
    this.deployments = new Informer<OwnedDeployment>(client, DEPLOYMENTS, {
      ...owned,
      transform: transformDeployment,
    });
    this.services = new Informer<OwnedObject>(client, SERVICES, {
      ...owned,
      transform: transformOwned,
    });
    this.budgets = new Informer<OwnedObject>(client, POD_DISRUPTION_BUDGETS, {
      ...owned,
      transform: transformOwned,
    });
    this.pods = new Informer<KubeObject>(client, PODS, {
      ...owned,
      // A pod that ended is no longer a gateway, though its object may stay for long.
      fieldSelector: LIVE_PODS,
      metadataOnly: true,
      transform: transformPod,
    });
    this.clients = clients;
    this.slices = sliceInformer(client);
    this.accounts = new Informer<OwnedObject>(client, SERVICE_ACCOUNTS, {
      ...named(EGRESS_SERVICE_ACCOUNT),
      metadataOnly: true,
      transform: transformOwned,
    });
    this.roleBindings = new Informer<OwnedObject>(client, ROLE_BINDINGS, {
      ...named(EGRESS_ROLE_BINDING),
      transform: transformOwned,
    });
    this.clusterRoleBindings = new Map(
      [EGRESS_CLUSTER_ROLE_BINDING, EGRESS_PSP_BINDING].map((name) => [
        name,
        new Informer(client, CLUSTER_ROLE_BINDINGS, {
          ...named(name),
          transform: transformBinding,
        }),
      ]),
    );
  }

  /** Starts the watches in the group. */
  start(group: TaskGroup): void {
    const { clients: _, ...own } = this.#informers();
    for (const [name, informer] of Object.entries(own)) {
      group.run(`${name} informer`, (signal) => informer.run(signal));
    }
  }

  /** Resolves after all first lists. */
  async synced(signal: AbortSignal): Promise<void> {
    const all = Object.values(this.#informers()).map(({ synced }) => synced);
    await abortable(Promise.all(all), signal);
  }

  /** The Egresses that are to be served: those that are not being deleted. */
  liveEgresses(namespace?: string): Egress[] {
    const { store } = this.egresses;
    const all = namespace === undefined
      ? store.list()
      : store.byIndex("namespace", namespace);
    return all.filter((e) => e.metadata.deletionTimestamp === undefined);
  }

  #informers(): Readonly<Record<string, Runnable>> {
    const { clusterRoleBindings, ...named } = this;
    return { ...named, ...Object.fromEntries(clusterRoleBindings) };
  }
}

/** Common part of all informers. */
interface Runnable {
  readonly synced: Promise<void>;
  run(signal: AbortSignal): Promise<void>;
}
