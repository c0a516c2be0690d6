import { embedIpv4, Prefix } from "../inet/mod.ts";
import type { ObjectMeta } from "../kube/mod.ts";
import {
  GROUP_VERSION,
  NODE_LABEL,
  POOL_LABEL,
  VPC_POOL,
} from "../names/mod.ts";
import type { Condition } from "./base/condition.ts";
import type { AddressBlock } from "./block/address_block.ts";

/** Addresses for pods, by what they are. */
export interface VpcAddressCounts {
  /** Addresses that pods have. */
  readonly used: number;
  /** Released addresses that pods may not get yet: they cool. */
  readonly cooling: number;
  /** Addresses available now. */
  readonly free: number;
}

/** A network interface of the instance that gives pods addresses. */
export interface VpcNodeEni extends VpcAddressCounts {
  /** EC2's ID. */
  readonly id: string;
  /** The device index; 0 is the instance's primary interface. */
  readonly device: number;
  /** ID of the subnet. */
  readonly subnet: string;
  /** Addresses (/32) and delegated prefixes, as CIDRs. */
  readonly blocks: readonly string[];
  /** The delegated IPv6 prefix: the IPv6 address of a pod is this, with its IPv4 address as the last 32 bits. */
  readonly ipv6?: string | undefined;
}

/** Observed state of a {@linkcode VpcNode}, written by coild of the node. */
export interface VpcNodeStatus {
  /** ID of the instance; absent until it is known. */
  readonly instance?: string;
  /** Type of the instance, for example "t3.small". */
  readonly instanceType?: string;
  /** What EC2 is asked for: single addresses or prefixes of 16. */
  readonly mode?: "address" | "prefix";
  /** How many interfaces give addresses. */
  readonly eniCount?: number;
  /** How many interfaces there can be. */
  readonly maxEnis?: number;
  /** Addresses of all interfaces. */
  readonly addresses?: VpcAddressCounts & {
    /** Maximum number of pods on the instance. */
    readonly capacity: number;
  };
  /** Lowest device first. */
  readonly enis?: readonly VpcNodeEni[];
  /** `Ready`, `SubnetExhausted`, `Throttled` and `MissingPermissions`. */
  readonly conditions?: readonly Condition[];
}

/** A node's ENIs and addresses of its VPC; cluster scoped, named as its Node, without a spec. */
export interface VpcNode {
  readonly apiVersion: typeof GROUP_VERSION;
  /** The kind of the object. */
  readonly kind: "VPCNode";
  /** Name and the like; the Node is its owner. */
  readonly metadata: ObjectMeta;
  /** What coild sees; absent until it has looked. */
  readonly status?: VpcNodeStatus;
}

/** Returns the VPCNode of a node, owned by the Node so that it vanishes with it. */
export function newVpcNode(
  node: { readonly name: string; readonly uid: string },
): VpcNode {
  return {
    apiVersion: GROUP_VERSION,
    kind: "VPCNode",
    metadata: {
      name: node.name,
      ownerReferences: [{
        apiVersion: "v1",
        kind: "Node",
        name: node.name,
        uid: node.uid,
      }],
    },
  };
}

/** More than an ENI has places: the distance between the indices of two devices. */
const DEVICE_STEP = 65_536;

/**
 * What EC2 has granted a node, in the form of the AddressBlocks that other nodes have; the API server has no such
 * objects. They are named as coild names them, and ordered as it orders them.
 */
export function vpcBlocksOf({ metadata, status }: VpcNode): AddressBlock[] {
  const labels = { [POOL_LABEL]: VPC_POOL, [NODE_LABEL]: metadata.name ?? "" };
  return (status?.enis ?? []).flatMap(({ id, device, blocks, ipv6 }) =>
    blocks.map((block, place): AddressBlock => ({
      apiVersion: GROUP_VERSION,
      kind: "AddressBlock",
      metadata: { name: `${id}/${block}`, labels },
      index: device * DEVICE_STEP + place,
      ...networksOf(block, ipv6),
    }))
  );
}

/** The networks of a block, with that of IPv6 where pods have both; what a node says may be anything. */
function networksOf(
  block: string,
  ipv6: string | undefined,
): Pick<AddressBlock, "ipv4" | "ipv6"> {
  const own = Prefix.tryParse(block);
  if (own?.family === "ipv6") return { ipv6: block };
  if (ipv6 === undefined) return { ipv4: block };
  const network = Prefix.tryParse(ipv6);
  const fits = network?.family === "ipv6" && network.hostBits >= 32;
  return fits && own !== undefined
    ? { ipv4: block, ipv6: String(embedIpv4(network, own)) }
    : { ipv4: block, ipv6 };
}
