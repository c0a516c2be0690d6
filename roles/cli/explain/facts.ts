import {
  ADDRESS_BLOCKS,
  ADDRESS_POOLS,
  type AddressBlock,
  type AddressPool,
  tryBlockOf,
  tryPoolOf,
  VPC_NODES,
  vpcBlocksOf,
} from "../../../lib/api/mod.ts";
import { Address, valuesOf } from "../../../lib/inet/mod.ts";
import {
  NODES,
  POD_HEADS,
  PODS,
  SERVICES,
  type V1Node,
  type V1Pod,
  type V1Service,
} from "../../../lib/kube/mod.ts";
import { nameText } from "../../../lib/names/mod.ts";
import type { FormerHolder } from "../../../lib/cnirpc/inspection/mod.ts";
import type { Looker, Unseen } from "../base/looker.ts";
import { transformBlock } from "../ipam/cluster_reader.ts";

/** A pod that has one of the addresses, or had it until it ended. */
export interface AddressHolder {
  readonly namespace: string;
  readonly name: string;
  readonly node: string;
  readonly phase: string;
  readonly isEnding: boolean;
  /** It uses its node's network, and the node's addresses. */
  readonly isHostNetwork: boolean;
  readonly addresses: readonly Address[];
  /** RFC 3339 time. */
  readonly since?: string | undefined;
}

/** An interface of a pod that had one of the addresses, as the coild of its node remembers it. */
export interface Former extends FormerHolder {
  readonly node: string;
}

/** All that concerns some addresses; absent is what could not be read. */
export interface Facts {
  readonly pods?: readonly AddressHolder[] | undefined;
  /** What EC2 has granted is in the form of AddressBlocks, too. */
  readonly blocks?: readonly AddressBlock[] | undefined;
  readonly pools?: readonly AddressPool[] | undefined;
  /** Names of all nodes. */
  readonly nodes?: readonly string[] | undefined;
  /** What else has the addresses, e.g. `Node node1`. */
  readonly others: readonly Other[];
  /** The last one first; absent if nodes were not asked. */
  readonly former?: readonly Former[] | undefined;
  readonly unseen: readonly Unseen[];
}

/** An object that is not a pod and has addresses. */
export interface Other {
  readonly object: string;
  readonly addresses: readonly Address[];
}

/**
 * Reads what concerns the addresses, and keeps only that. Pods first: a block
 * that a pod has an address of is older than its address.
 */
export async function readFacts(
  looker: Looker,
  addresses: readonly Address[],
): Promise<Omit<Facts, "former">> {
  const isAsked = (texts: readonly (string | undefined)[]) => {
    const found = texts.flatMap((text) => Address.tryParse(text ?? "") ?? []);
    return addresses.filter((a) => found.some((b) => a.equals(b)));
  };
  const pods = await looker.list(PODS, (pod) => {
    const own = isAsked((pod.status?.podIPs ?? []).map(({ ip }) => ip));
    return own.length === 0 ? [] : [podFacts(pod, own)];
  }, { format: POD_HEADS });
  const isCovering = (block: AddressBlock) => {
    const prefixes = valuesOf(tryBlockOf(block)?.prefixes ?? {});
    return addresses.some((a) => prefixes.some((p) => p.contains(a)));
  };
  const blocks = await looker.list(
    ADDRESS_BLOCKS,
    (block) => isCovering(block) ? [transformBlock(block)] : [],
  );
  const ofVpc = await looker.list(
    VPC_NODES,
    (node) => vpcBlocksOf(node).filter(isCovering),
    { isOptional: true },
  );
  const pools = (await looker.list(ADDRESS_POOLS, (pool) => {
    const subnets = tryPoolOf(pool)?.subnets.flatMap(valuesOf) ?? [];
    return addresses.some((a) => subnets.some((p) => p.contains(a)))
      ? [pool]
      : [];
  }))?.flat();
  const nodes = await looker.list(NODES, (node) => ({
    name: node.metadata?.name ?? "",
    addresses: isAsked(textsOfNode(node)),
  }));
  // What a pool has is not a Service's, and there may be very many of them.
  const services = pools?.length !== 0
    ? []
    : await looker.list(SERVICES, (service) => ({
      name: nameText({ namespace: "", name: "", ...service.metadata }),
      addresses: isAsked(textsOfService(service)),
    }));
  return {
    pods: pods?.flat(),
    blocks: blocks && [...blocks, ...ofVpc ?? []].flat(),
    pools,
    nodes: nodes?.map(({ name }) => name),
    others: [
      ...objects("Node", nodes ?? []),
      ...objects("Service", services ?? []),
    ],
    unseen: looker.unseen,
  };
}

function podFacts(pod: V1Pod, addresses: readonly Address[]): AddressHolder {
  const { metadata, spec, status } = pod;
  return {
    namespace: metadata?.namespace ?? "",
    name: metadata?.name ?? "",
    node: spec?.nodeName ?? "",
    phase: status?.phase ?? "Unknown",
    isEnding: metadata?.deletionTimestamp !== undefined,
    isHostNetwork: spec?.hostNetwork === true,
    addresses,
    since: status?.startTime ?? metadata?.creationTimestamp,
  };
}

function textsOfNode({ status }: V1Node): string[] {
  return (status?.addresses ?? []).map(({ address }) => address);
}

function textsOfService({ spec, status }: V1Service): (string | undefined)[] {
  const ingress = status?.loadBalancer?.ingress ?? [];
  return [
    ...spec?.clusterIPs ?? [spec?.clusterIP],
    ...spec?.externalIPs ?? [],
    ...ingress.map(({ ip }) => ip),
  ];
}

function objects(
  kind: string,
  all: readonly { readonly name: string; readonly addresses: Address[] }[],
): Other[] {
  return all.filter(({ addresses }) => addresses.length > 0)
    .map(({ name, addresses }) => ({ object: `${kind} ${name}`, addresses }));
}
