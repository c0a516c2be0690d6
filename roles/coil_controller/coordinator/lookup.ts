import { ADDRESS_POOLS } from "../../../lib/api/mod.ts";
import {
  CONFIG_MAPS,
  KubeApiError,
  type KubeClient,
  type KubeObject,
  PODS,
  type ResourceType,
  SERVICE_CIDRS,
  type V1Pod,
} from "../../../lib/kube/mod.ts";
import { compareText } from "../../../lib/names/mod.ts";
import { cidrsAmong, CidrsUnknownError } from "./cidr_list.ts";
import {
  kubeadmCidrs,
  managerCidrs,
  type NetworkKind,
} from "./cluster_networks.ts";
import { CALICO_POOLS, CILIUM_POOLS, SERVICE_CIDRS_BETA } from "./resources.ts";

const NAMESPACE = "kube-system";
const MANAGER = "component=kube-controller-manager";

type ConfigData = Readonly<Record<string, string>>;

/**
 * The cluster's networks as the API server has them; what pods and Services both need is read once. Missing objects are
 * undefined; forbidden or malformed ones are a {@linkcode CidrsUnknownError}.
 * Other failures are thrown, too.
 */
export class Lookup {
  readonly #client: Pick<KubeClient, "listAll" | "tryGet">;
  readonly #signal: AbortSignal;
  #kubeadm: Promise<ConfigData | undefined> | undefined;
  #managers: Promise<V1Pod[] | undefined> | undefined;

  constructor(
    client: Pick<KubeClient, "listAll" | "tryGet">,
    { signal }: { readonly signal: AbortSignal },
  ) {
    this.#client = client;
    this.#signal = signal;
  }

  async kubeadm(kind: NetworkKind): Promise<readonly string[]> {
    this.#kubeadm ??= this.#configMap("kubeadm-config");
    return kubeadmCidrs(await this.#kubeadm, kind);
  }

  async manager(kind: NetworkKind): Promise<readonly string[] | undefined> {
    this.#managers ??= this.#list(PODS, {
      namespace: NAMESPACE,
      labelSelector: MANAGER,
    });
    const [pod] = oldestFirst(await this.#managers ?? []);
    return pod && managerCidrs(pod, kind);
  }

  async cilium(): Promise<ConfigData | undefined> {
    return await this.#configMap("cilium-config");
  }

  async ciliumPools(): Promise<string[] | undefined> {
    const pools = await this.#list(CILIUM_POOLS);
    return pools && cidrsAmong(
      oldestFirst(pools).flatMap(({ spec }) => [
        ...spec?.ipv4?.cidrs ?? [],
        ...spec?.ipv6?.cidrs ?? [],
      ]),
      "the CiliumPodIPPools",
    );
  }

  async calico(): Promise<string[] | undefined> {
    const pools = await this.#list(CALICO_POOLS);
    return pools && cidrsAmong(
      oldestFirst(pools)
        .filter(({ spec }) => spec?.disabled !== true)
        .map(({ spec }) => spec?.cidr),
      "the IPPools of Calico",
    );
  }

  /** Coil's own. */
  async pools(): Promise<string[] | undefined> {
    const pools = await this.#list(ADDRESS_POOLS);
    return pools && cidrsAmong(
      oldestFirst(pools).flatMap(({ spec }) =>
        spec.subnets.flatMap(({ ipv4, ipv6 }) => [ipv4, ipv6])
      ),
      "the AddressPools",
    );
  }

  async serviceCidrs(): Promise<string[] | undefined> {
    const objects = await this.#list(SERVICE_CIDRS) ??
      await this.#list(SERVICE_CIDRS_BETA);
    return objects && cidrsAmong(
      oldestFirst(objects).flatMap(({ spec }) => spec?.cidrs ?? []),
      "the ServiceCIDRs",
    );
  }

  async #configMap(
    name: string,
  ): Promise<ConfigData | undefined> {
    const map = await this.#served(
      `ConfigMap ${NAMESPACE}/${name}`,
      () =>
        this.#client.tryGet(CONFIG_MAPS, {
          namespace: NAMESPACE,
          name,
          signal: this.#signal,
        }),
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
    const list = await this.#served(
      `${type.kind}s`,
      () => this.#client.listAll(type, { ...selection, signal: this.#signal }),
    );
    return list?.items.filter(({ metadata }) =>
      metadata?.deletionTimestamp === undefined
    );
  }

  /** What the API server does not serve is not there. */
  async #served<T>(
    what: string,
    ask: () => Promise<T>,
  ): Promise<T | undefined> {
    try {
      return await ask();
    } catch (cause) {
      if (!(cause instanceof KubeApiError)) throw cause;
      if (cause.isNotFound) return undefined;
      if (!cause.isForbidden) throw cause;
      throw new CidrsUnknownError(
        `coil-controller may not read ${what}: apply its ClusterRole`,
        { cause },
      );
    }
  }
}

function oldestFirst<T extends KubeObject>(objects: readonly T[]): T[] {
  const key = ({ metadata }: T) =>
    `${metadata?.creationTimestamp ?? ""} ${metadata?.name ?? ""}`;
  return objects.toSorted((a, b) => compareText(key(a), key(b)));
}
