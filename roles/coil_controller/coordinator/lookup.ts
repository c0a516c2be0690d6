import { ADDRESS_POOLS } from "../../../lib/api/mod.ts";
import {
  CONFIG_MAPS,
  KubeApiError,
  type KubeClient,
  type KubeObject,
  PODS,
  type ResourceType,
  SERVICE_CIDRS,
} from "../../../lib/kube/mod.ts";
import { compareText } from "../../../lib/names/mod.ts";
import { unique } from "./cidr_list.ts";
import {
  type ClusterNetworks,
  kubeadmNetworks,
  managerNetworks,
} from "./cluster_networks.ts";
import { CALICO_POOLS, CILIUM_POOLS, SERVICE_CIDRS_BETA } from "./resources.ts";

const NAMESPACE = "kube-system";
const MANAGER = "component=kube-controller-manager";

/** What the API server says about the cluster's networks. What is not there is undefined, other failures are thrown. */
export class Lookup {
  readonly #client: Pick<KubeClient, "listAll" | "tryGet">;
  readonly #signal: AbortSignal;

  constructor(
    client: Pick<KubeClient, "listAll" | "tryGet">,
    { signal }: { readonly signal: AbortSignal },
  ) {
    this.#client = client;
    this.#signal = signal;
  }

  async kubeadm(): Promise<ClusterNetworks | undefined> {
    return kubeadmNetworks(await this.#configMap("kubeadm-config"));
  }

  async manager(): Promise<ClusterNetworks | undefined> {
    const pods = await this.#list(PODS, {
      namespace: NAMESPACE,
      labelSelector: MANAGER,
    });
    const [pod] = oldestFirst(pods ?? []);
    return pod && managerNetworks(pod);
  }

  async cilium(): Promise<Readonly<Record<string, string>> | undefined> {
    return await this.#configMap("cilium-config");
  }

  async ciliumPools(): Promise<string[] | undefined> {
    const pools = await this.#list(CILIUM_POOLS);
    return pools && unique(
      oldestFirst(pools).flatMap(({ spec }) => [
        ...spec?.ipv4?.cidrs ?? [],
        ...spec?.ipv6?.cidrs ?? [],
      ]),
    );
  }

  async calico(): Promise<string[] | undefined> {
    const pools = await this.#list(CALICO_POOLS);
    return pools && unique(
      oldestFirst(pools)
        .filter(({ spec }) => spec?.disabled !== true)
        .map(({ spec }) => spec?.cidr),
    );
  }

  /** Coil's own. */
  async pools(): Promise<string[] | undefined> {
    const pools = await this.#list(ADDRESS_POOLS);
    return pools && unique(
      oldestFirst(pools).flatMap(({ spec }) =>
        spec.subnets.flatMap(({ ipv4, ipv6 }) => [ipv4, ipv6])
      ),
    );
  }

  async serviceCidrs(): Promise<string[] | undefined> {
    const objects = await this.#list(SERVICE_CIDRS) ??
      await this.#list(SERVICE_CIDRS_BETA);
    return objects && unique(
      oldestFirst(objects).flatMap(({ spec }) => spec?.cidrs ?? []),
    );
  }

  async #configMap(
    name: string,
  ): Promise<Readonly<Record<string, string>> | undefined> {
    const map = await this.#allowed(() =>
      this.#client.tryGet(CONFIG_MAPS, {
        namespace: NAMESPACE,
        name,
        signal: this.#signal,
      })
    );
    return map?.data;
  }

  /** Objects that are not being deleted. */
  async #list<T extends KubeObject>(
    type: ResourceType<T>,
    selection: {
      readonly namespace?: string;
      readonly labelSelector?: string;
    } = {},
  ): Promise<T[] | undefined> {
    const list = await this.#allowed(() =>
      this.#client.listAll(type, { ...selection, signal: this.#signal })
    );
    return list?.items.filter(({ metadata }) =>
      metadata?.deletionTimestamp === undefined
    );
  }

  /** What the API server does not serve, or does not let us see, is not there. */
  async #allowed<T>(ask: () => Promise<T>): Promise<T | undefined> {
    try {
      return await ask();
    } catch (error) {
      const isAbsent = error instanceof KubeApiError &&
        (error.isNotFound || error.isForbidden);
      if (isAbsent) return undefined;
      throw error;
    }
  }
}

function oldestFirst<T extends KubeObject>(objects: readonly T[]): T[] {
  const key = ({ metadata }: T) =>
    `${metadata?.creationTimestamp ?? ""} ${metadata?.name ?? ""}`;
  return objects.toSorted((a, b) => compareText(key(a), key(b)));
}
