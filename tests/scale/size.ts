// How large the modelled cluster is, and its objects.

/** How large it is. */
export interface ClusterSize {
  readonly nodes: number;
  readonly pods: number;
  readonly pools: number;
  /** Blocks of each of them, in use or free. */
  readonly poolBlocks: number;
  /** Nodes are shown pools that have so many times as many, as in a cluster of which this is a sample. Default 1. */
  readonly sampleOf?: number;
  readonly egresses: number;
  /** Of these, so many have gateways and clients that the controllers know. Default all. */
  readonly servedEgresses?: number;
  readonly gatewaysEach: number;
  /** Namespaces that the Egresses are in. */
  readonly egressNamespaces: number;
  /** Pods that use an Egress; they are on any node. */
  readonly clients: number;
}

/** What we promise. */
export const LARGE: ClusterSize = {
  nodes: 5_000,
  pods: 150_000,
  pools: 20,
  // A /13 each.
  poolBlocks: 16_384,
  egresses: 200,
  gatewaysEach: 3,
  egressNamespaces: 50,
  clients: 10_000,
};

/** Of a block. */
export const BLOCK_ADDRESSES = 32;
/** Of the cluster. */
export const NAMESPACES = 1_000;
/** Of a pod, on average: 30 of 150,000 end in a second. */
export const LIFE_MS = 5_000_000;
/** coild follows a namespace for so long after its last client of it. */
const IDLE_MS = 300_000;
/** In bytes, as JSON; pods without managed fields are not to be had. */
export const BYTES = {
  pods: 6_000,
  nodes: 10_000,
  namespaces: 500,
  addresspools: 2_000,
  addressblocks: 1_000,
  blockrequests: 1_000,
  egresses: 3_000,
  services: 1_500,
  endpointslices: 2_000,
  egressclientslices: 12_000,
  deployments: 4_000,
  poddisruptionbudgets: 1_000,
  serviceaccounts: 500,
  rolebindings: 1_000,
  clusterrolebindings: 5_000,
  leases: 500,
} as const;
export type Plural = keyof typeof BYTES;

/** A sample of it with so many nodes. */
export function sampleOf(size: ClusterSize, nodes: number): ClusterSize {
  const times = size.nodes / nodes;
  return {
    ...size,
    nodes,
    pods: Math.round(size.pods / times),
    poolBlocks: Math.ceil(size.poolBlocks / times),
    sampleOf: times,
    servedEgresses: Math.max(1, Math.round(size.egresses / times)),
    // As many namespaces as before: a node's clients name as many of them.
    clients: Math.round(size.clients / times),
  };
}

/** How many objects of each kind there are, given those that come and go. */
export function objectsOf(
  size: ClusterSize,
  changing: Readonly<Record<"pods" | "nodes" | "blocks", number>>,
): Readonly<Partial<Record<Plural, number>>> {
  const served = servedEgressesOf(size);
  return {
    pods: changing.pods,
    nodes: changing.nodes,
    namespaces: NAMESPACES,
    addresspools: size.pools,
    addressblocks: changing.blocks,
    egressclientslices: Math.max(served, size.clients / 100),
    egresses: size.egresses,
    services: size.egresses,
    endpointslices: size.egresses,
    deployments: served,
    serviceaccounts: Math.min(served, size.egressNamespaces),
    rolebindings: Math.min(served, size.egressNamespaces),
    clusterrolebindings: 1,
  };
}

/** How many Egresses have gateways. */
export function servedEgressesOf(
  { egresses, servedEgresses = egresses }: ClusterSize,
): number {
  return servedEgresses;
}

/** How many gateways there are. */
export function gatewaysOf(size: ClusterSize): number {
  return servedEgressesOf(size) * size.gatewaysEach;
}

/** How many namespaces of Egresses a node's clients name, on average. */
export function namespacesOfNode(size: ClusterSize): number {
  return namedOf(size.egressNamespaces, size);
}

/** How many Egresses they name. */
export function egressesOfNode(size: ClusterSize): number {
  return namedOf(size.egresses, size);
}

/** How many of so many a node's clients name, where each names one by chance. */
function namedOf(count: number, { nodes, clients }: ClusterSize): number {
  const named = clients / nodes * (1 + IDLE_MS / LIFE_MS);
  return count * (1 - Math.exp(-named / count));
}
