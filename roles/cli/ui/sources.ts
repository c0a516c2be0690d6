import {
  ADDRESS_BLOCKS,
  ADDRESS_POOLS,
  type AddressBlock,
  type AddressPool,
  BLOCK_REQUESTS,
  type BlockRequest,
  type Egress,
  EGRESS_CLIENT_SLICES,
  EGRESS_SELECTOR,
  type EgressClientSlice,
  EGRESSES,
  VPC_NODES,
  type VpcNode,
} from "../../../lib/api/mod.ts";
import {
  DAEMON_SETS,
  DEPLOYMENTS,
  keepFields,
  type KubeObject,
  LEASES,
  LIVE_PODS,
  NODES,
  PODS,
  type ResourceType,
  type V1DaemonSet,
  type V1Deployment,
  type V1Lease,
  type V1Node,
  type V1Pod,
} from "../../../lib/kube/mod.ts";
import { EGRESS_LEASE, IPAM_LEASE } from "../../../lib/names/mod.ts";
import type { Unseen } from "../base/looker.ts";
import { LINUX } from "../base/selections.ts";
import {
  addressesOf,
  transformBlock,
  transformPod,
} from "../ipam/cluster_reader.ts";
import {
  both,
  DAEMONS,
  isLeftOut,
  leadershipOf,
  LEASE_SELECTIONS,
  nodeOf,
  partOf,
  type Snapshot,
  workloadOfDaemonSet,
  workloadOfDeployment,
} from "../status/snapshot.ts";
import type { Entries } from "./feed.ts";
import type { Follower, FollowOptions } from "./follower.ts";
import { egressEntries, poolEntries, statusEntries } from "./view.ts";

/** Parts of the entries, each made again when what it is made of changes. */
export const PARTS = ["status", "map", "topology"] as const;
export type PartName = typeof PARTS[number];

/** Follows objects for the sake of some parts. */
export type Follow = <T extends KubeObject>(
  type: ResourceType<T>,
  parts: readonly PartName[],
  options?: FollowOptions<T>,
) => Follower<T>;

/** Everything that the page is made of. */
export interface Sources {
  readonly pools: Follower<AddressPool>;
  readonly vpcNodes: Follower<VpcNode>;
  readonly egresses: Follower<Egress>;
  readonly deployments: Follower<V1Deployment>;
  readonly daemonSets: Follower<V1DaemonSet>;
  readonly parts: Follower<V1Pod>;
  readonly leases: readonly Follower<V1Lease>[];
  readonly requests: Follower<BlockRequest>;
  readonly nodes: Follower<V1Node>;
  readonly blocks: Follower<AddressBlock>;
  readonly pods: Follower<V1Pod>;
  readonly slices: Follower<EgressClientSlice>;
  readonly gateways: Follower<V1Pod>;
}

export function followSources(follow: Follow): Sources {
  const status = ["status"] as const;
  return {
    pools: follow(ADDRESS_POOLS, ["status", "map"]),
    vpcNodes: follow(VPC_NODES, ["status", "map"], { isOptional: true }),
    egresses: follow(EGRESSES, ["status", "topology"]),
    deployments: follow(DEPLOYMENTS, status, DAEMONS),
    daemonSets: follow(DAEMON_SETS, status, DAEMONS),
    parts: follow(PODS, status, { ...DAEMONS, transform: transformPart }),
    leases: LEASE_SELECTIONS.map((selection) =>
      follow(LEASES, status, selection)
    ),
    requests: follow(BLOCK_REQUESTS, status),
    nodes: follow(NODES, status, { ...LINUX, transform: transformNode }),
    blocks: follow(ADDRESS_BLOCKS, ["map"], { transform: transformBlock }),
    pods: follow(PODS, ["map"], {
      fieldSelector: LIVE_PODS,
      transform: transformPod,
    }),
    slices: follow(EGRESS_CLIENT_SLICES, ["topology"]),
    gateways: follow(PODS, ["topology"], {
      fieldSelector: LIVE_PODS,
      labelSelector: EGRESS_SELECTOR,
      transform: transformPart,
    }),
  };
}

/** Makes one part of the entries. */
export function entriesOf(
  part: PartName,
  sources: Sources,
  about: {
    readonly cluster: string;
    readonly unseen: readonly Unseen[];
    readonly now: Date;
  },
): Entries {
  switch (part) {
    case "status":
      return statusEntries(snapshotOf(sources, about.unseen), about);
    case "map":
      return poolEntries({
        pools: sources.pools.objects ?? [],
        blocks: sources.blocks.objects ?? [],
        pods: (sources.pods.objects ?? []).flatMap((pod) =>
          addressesOf(pod) ?? []
        ),
        vpcNodes: sources.vpcNodes.objects,
      });
    case "topology":
      return egressEntries({
        egresses: sources.egresses.objects ?? [],
        slices: sources.slices.objects ?? [],
        gateways: sources.gateways.objects ?? [],
      });
  }
}

/** What an installation without pools, or without Egresses, need not have. */
const OF_HALVES: readonly (readonly [string, readonly string[]])[] = [
  [
    IPAM_LEASE,
    [ADDRESS_POOLS.plural, ADDRESS_BLOCKS.plural, BLOCK_REQUESTS.plural],
  ],
  [EGRESS_LEASE, [EGRESSES.plural, EGRESS_CLIENT_SLICES.plural]],
];

function snapshotOf(sources: Sources, unseen: readonly Unseen[]): Snapshot {
  const leases = sources.leases
    .map(({ objects }) => objects?.map(leadershipOf))
    .reduce(both, []);
  const leftOut = OF_HALVES
    .filter(([lease]) => isLeftOut(lease, { leases }))
    .flatMap(([, plurals]) => plurals);
  return {
    workloads: both(
      sources.deployments.objects?.map(workloadOfDeployment),
      sources.daemonSets.objects?.map(workloadOfDaemonSet),
    ),
    parts: sources.parts.objects?.map(partOf),
    leases,
    pools: sources.pools.objects,
    requests: sources.requests.objects,
    egresses: sources.egresses.objects,
    nodes: sources.nodes.objects?.map(nodeOf),
    vpcNodes: sources.vpcNodes.objects,
    unseen: unseen.filter(({ what }) => !leftOut.includes(what)),
  };
}

const METADATA = [
  ...["name", "namespace", "uid", "resourceVersion", "labels"] as const,
  ...["creationTimestamp", "deletionTimestamp"] as const,
] as const;

/** What is needed of a pod of Coil's. */
function transformPart({ metadata, spec, status }: V1Pod): V1Pod {
  return {
    metadata: keepFields(metadata, ...METADATA),
    spec: {
      ...keepFields(spec, "nodeName"),
      containers: (spec?.containers ?? []).map((container) => ({
        name: container.name,
        ...keepFields(container, "image"),
      })),
    },
    ...status === undefined ? {} : { status },
  };
}

/** What is needed of a node. */
function transformNode({ metadata, status }: V1Node): V1Node {
  return {
    metadata: keepFields(metadata, "name", "uid", "resourceVersion"),
    status: keepFields(status, "conditions"),
  };
}
