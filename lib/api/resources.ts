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
export const ADDRESS_POOLS: ResourceType<AddressPool> = {
  group: API_GROUP,
  version: API_VERSION,
  plural: "addresspools",
  kind: "AddressPool",
  namespaced: false,
};

/** Where the API server serves {@linkcode AddressBlock}s. */
export const ADDRESS_BLOCKS: ResourceType<AddressBlock> = {
  group: API_GROUP,
  version: API_VERSION,
  plural: "addressblocks",
  kind: "AddressBlock",
  namespaced: false,
};

/** Where the API server serves {@linkcode BlockRequest}s. */
export const BLOCK_REQUESTS: ResourceType<BlockRequest> = {
  group: API_GROUP,
  version: API_VERSION,
  plural: "blockrequests",
  kind: "BlockRequest",
  namespaced: false,
};

/** Where the API server serves {@linkcode Egress}es. */
export const EGRESSES: ResourceType<Egress> = {
  group: API_GROUP,
  version: API_VERSION,
  plural: "egresses",
  kind: "Egress",
  namespaced: true,
};

/** Where the API server serves {@linkcode EgressClientSlice}s. */
export const EGRESS_CLIENT_SLICES: ResourceType<EgressClientSlice> = {
  group: API_GROUP,
  version: API_VERSION,
  plural: "egressclientslices",
  kind: "EgressClientSlice",
  namespaced: true,
};

/** Where the API server serves {@linkcode SpiderCoordinator}s. */
export const SPIDER_COORDINATORS: ResourceType<SpiderCoordinator> = {
  group: "spiderpool.spidernet.io",
  version: "v2beta1",
  plural: "spidercoordinators",
  kind: "SpiderCoordinator",
  namespaced: false,
};

/** Where the API server serves {@linkcode VpcNode}s. */
export const VPC_NODES: ResourceType<VpcNode> = {
  group: API_GROUP,
  version: API_VERSION,
  plural: "vpcnodes",
  kind: "VPCNode",
  namespaced: false,
};
