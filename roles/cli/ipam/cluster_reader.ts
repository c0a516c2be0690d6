import { CommandError } from "../../../lib/command/mod.ts";
import {
  addressesByFamily,
  type PodAddresses,
} from "../../../lib/ipam/audit/mod.ts";
import {
  ADDRESS_BLOCKS,
  ADDRESS_POOLS,
  type AddressBlock,
  type AddressPool,
  VPC_NODES,
  type VpcNode,
} from "../../../lib/api/mod.ts";
import {
  isPathSegment,
  keepFields,
  KubeApiError,
  type KubeClient,
  LIVE_PODS,
  POD_HEADS,
  PODS,
  type ResourceType,
  type V1Pod,
} from "../../../lib/kube/mod.ts";
import { NODE_LABEL, POOL_LABEL, VPC_POOL } from "../../../lib/names/mod.ts";
import { Looker } from "../base/looker.ts";
import { listPages, type PageOptions } from "../base/pages.ts";

export interface BlockSelection {
  readonly pool?: string | undefined;
  readonly node?: string | undefined;
}

/** What an object's label can hold: LabelValue of k8s.io/apimachinery/pkg/util/validation. */
const LABEL_VALUE = /^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$/;

/**
 * Reads what the commands show, page by page, and keeps of each object only
 * what is shown: a cluster may have 100,000 pods.
 */
export class ClusterReader {
  readonly #client: Pick<KubeClient, "list" | "listItems" | "tryGet">;
  readonly #pageSize: number;

  constructor(
    client: Pick<KubeClient, "list" | "listItems" | "tryGet">,
    pageSize: number,
  ) {
    this.#client = client;
    this.#pageSize = pageSize;
  }

  pools(): Promise<AddressPool[]> {
    return this.#pages(ADDRESS_POOLS, { keep: (pool) => pool });
  }

  /** Lists the blocks of a pool, of a node, of both, or all. */
  blocks({ pool, node }: BlockSelection = {}): Promise<AddressBlock[]> {
    // No block can carry such a name, and it would change the selector.
    const named = [pool, node].filter((name) => name !== undefined);
    if (!named.every((name) => LABEL_VALUE.test(name))) {
      return Promise.resolve([]);
    }
    const terms = [
      ...(pool === undefined ? [] : [`${POOL_LABEL}=${pool}`]),
      ...(node === undefined ? [] : [`${NODE_LABEL}=${node}`]),
    ];
    return this.#pages(ADDRESS_BLOCKS, {
      ...(terms.length === 0 ? {} : { labelSelector: terms.join() }),
      keep: transformBlock,
    });
  }

  /** Lists the VPCNodes; an empty list if the cluster lacks the resource, or the user may not read it. */
  async vpcNodes(): Promise<VpcNode[]> {
    const looker = new Looker(this.#client, this.#pageSize);
    return await looker.list(VPC_NODES, transformVpcNode) ?? [];
  }

  /**
   * Lists the pods with addresses of their own, of all nodes and namespaces:
   * otherwise two pods with the same address would not be found.
   */
  async pods(): Promise<PodAddresses[]> {
    // The addresses of pods that have ended are free.
    const pods = await this.#pages(PODS, {
      fieldSelector: LIVE_PODS,
      format: POD_HEADS,
      keep: addressesOf,
    });
    return pods.flatMap((pod) => pod ?? []);
  }

  /** Whether there is an object of this name, as far as we may know. */
  async has<T extends object>(
    type: ResourceType<T>,
    name: string,
  ): Promise<boolean> {
    if (!isPathSegment(name)) return false;
    try {
      const options = { name, metadataOnly: true };
      return await this.#client.tryGet(type, options) !== undefined;
    } catch (error) {
      // The ClusterRole view has no nodes.
      if (error instanceof KubeApiError && error.isForbidden) return true;
      throw error;
    }
  }

  #pages<T extends object, R>(
    type: ResourceType<T>,
    options: Omit<PageOptions<T, R>, "pageSize">,
  ): Promise<R[]> {
    const pageSize = this.#pageSize;
    return listPages(this.#client, type, { ...options, pageSize });
  }
}

/** Says which pools there are instead. */
export function noSuchPool(
  name: string,
  { verb, existing }: {
    readonly verb: string;
    readonly existing: readonly string[];
  },
): CommandError {
  const known = existing.length === 0
    ? "there are no AddressPools"
    : `it does not exist (existing: ${existing.toSorted().join(", ")})`;
  return new CommandError(`Cannot ${verb} AddressPool "${name}": ${known}`);
}

/** The addresses of a pod that has some of its own, on a node. */
export function addressesOf(pod: V1Pod): PodAddresses | undefined {
  const { metadata, spec, status } = pod;
  if (spec?.hostNetwork === true || spec?.nodeName === undefined) return;
  const addresses = addressesByFamily(pod);
  if (Object.keys(addresses).length === 0) return;
  const since = status?.startTime ?? metadata?.creationTimestamp;
  return {
    namespace: metadata?.namespace ?? "",
    name: metadata?.name ?? "",
    node: spec.nodeName,
    addresses,
    ...(since === undefined ? {} : { since }),
  };
}

/** What {@linkcode addressesOf} needs of a pod. */
export function transformPod({ metadata, spec, status }: V1Pod): V1Pod {
  return {
    metadata: keepFields(
      metadata,
      ...["name", "namespace", "uid", "resourceVersion"] as const,
      "creationTimestamp",
    ),
    spec: {
      ...keepFields(spec, "hostNetwork", "nodeName"),
      containers: [],
    },
    status: keepFields(status, "podIPs", "startTime"),
  };
}

/** What the commands need of a VPCNode. */
export function transformVpcNode({ metadata, ...rest }: VpcNode): VpcNode {
  return { ...rest, metadata: keepFields(metadata, "name", "uid") };
}

/** What the commands need of a block. */
export function transformBlock(
  { metadata, ...rest }: AddressBlock,
): AddressBlock {
  return {
    ...rest,
    metadata: keepFields(
      metadata,
      ...["name", "uid", "labels"] as const,
      ...["creationTimestamp", "deletionTimestamp"] as const,
    ),
  };
}

/** The existing pools, and the nodes that have pool `vpc`. @throws {CommandError} when the one asked for is none of them. */
export async function knownPools(
  reader: ClusterReader,
  pool: string | undefined,
): Promise<{
  readonly pools: readonly AddressPool[];
  readonly vpcNodes: readonly VpcNode[];
}> {
  const pools = await reader.pools();
  const vpcNodes = await reader.vpcNodes();
  const names = [
    ...pools.map(({ metadata }) => metadata.name ?? ""),
    ...vpcNodes.length > 0 ? [VPC_POOL] : [],
  ];
  if (pool !== undefined && !names.includes(pool)) {
    throw noSuchPool(pool, { verb: "show", existing: names });
  }
  return { pools, vpcNodes };
}
