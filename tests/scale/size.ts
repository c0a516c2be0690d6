// How large the modelled cluster is, and its objects.

/** How large it is. */
export interface ClusterSize {
  readonly nodes: number;
  readonly pods: number;
  readonly pools: number;
  readonly egresses: number;
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
  egresses: 200,
  gatewaysEach: 3,
  egressNamespaces: 50,
  clients: 10_000,
};

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
} as const;
export type Plural = keyof typeof BYTES;

/** How many namespaces of Egresses a node's clients name, on average. */
export function namespacesOfNode(
  { nodes, clients, egressNamespaces }: ClusterSize,
): number {
  const named = clients / nodes * (1 + IDLE_MS / LIFE_MS);
  return egressNamespaces * (1 - Math.exp(-named / egressNamespaces));
}
