import type { ResourceType } from "../kube/mod.ts";
import { API_GROUP, API_VERSION } from "../names/mod.ts";
import type { AddressBlock } from "./block/address_block.ts";
import type { AddressPool } from "./pool/address_pool.ts";
import type { BlockRequest } from "./block/block_request.ts";
import type { Egress } from "./egress/egress.ts";
import type { EgressClientSlice } from "./egress/egress_client_slice.ts";
import type { SpiderCoordinator } from "./spider_coordinator.ts";
import type { VpcNode } from "./vpc_node.ts";

/** Where the API server serves {@linkcode AddressPool}s. */
export const ADDRESS_POOLS: ResourceType<AddressPool> = clusterWide(
  "addresspools",
  "AddressPool",
);

/** Where the API server serves {@linkcode AddressBlock}s. */
export const ADDRESS_BLOCKS: ResourceType<AddressBlock> = clusterWide(
  "addressblocks",
  "AddressBlock",
);

/** Where the API server serves {@linkcode BlockRequest}s. */
export const BLOCK_REQUESTS: ResourceType<BlockRequest> = clusterWide(
  "blockrequests",
  "BlockRequest",
);

/** Where the API server serves {@linkcode Egress}es. */
export const EGRESSES: ResourceType<Egress> = namespaced("egresses", "Egress");

/** Where the API server serves {@linkcode EgressClientSlice}s. */
export const EGRESS_CLIENT_SLICES: ResourceType<EgressClientSlice> = namespaced(
  "egressclientslices",
  "EgressClientSlice",
);

/** Where the API server serves {@linkcode SpiderCoordinator}s. */
export const SPIDER_COORDINATORS: ResourceType<SpiderCoordinator> = {
  group: "spiderpool.spidernet.io",
  version: "v2beta1",
  plural: "spidercoordinators",
  kind: "SpiderCoordinator",
  namespaced: false,
};

/** Where the API server serves {@linkcode VpcNode}s. */
export const VPC_NODES: ResourceType<VpcNode> = clusterWide(
  "vpcnodes",
  "VPCNode",
);

function namespaced<T>(plural: string, kind: string): ResourceType<T> {
  return { ...clusterWide<T>(plural, kind), namespaced: true };
}

function clusterWide<T>(plural: string, kind: string): ResourceType<T> {
  const [group, version] = [API_GROUP, API_VERSION];
  return { group, version, plural, kind, namespaced: false };
}
