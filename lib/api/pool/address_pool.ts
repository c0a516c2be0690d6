import type { GROUP_VERSION } from "../../names/mod.ts";
import type { ObjectMeta } from "../../kube/mod.ts";
import type { Condition } from "../base/condition.ts";

/** One entry of a pool's `spec.subnets`: CIDRs as the admin wrote them. */
export interface SubnetSpec {
  /** CIDR of an IPv4 network; host bits are allowed and mean nothing. */
  readonly ipv4?: string;
  /** CIDR of an IPv6 network; with equally many addresses, if both are given. */
  readonly ipv6?: string;
}

/** Desired state of an {@linkcode AddressPool}. */
export interface AddressPoolSpec {
  /** A block has 2 to the power of this many addresses. The API server fills in 5. */
  readonly blockSizeBits?: number;
  /** Where the addresses come from. New entries are appended, none is ever changed. */
  readonly subnets: readonly SubnetSpec[];
  /** Addresses, ranges "10.2.0.1-10.2.0.9" and CIDRs that are never given; pods that have one keep it. */
  readonly reserved?: readonly string[];
  /** No pod gets an address of the pool, and no node a block; what they have they keep. Default: false. */
  readonly paused?: boolean;
}

/** Blocks of a pool: how many there can be, exist, and can still be allocated. */
export interface BlockCounts {
  /** Blocks that the subnets have room for, at most 2^31. */
  readonly total: number;
  /** Blocks that exist. */
  readonly allocated: number;
  /** Blocks that can still be allocated. */
  readonly free: number;
  /** Blocks that cannot be allocated, because their addresses are reserved or used elsewhere; absent when there are none. */
  readonly unavailable?: number;
}

/**
 * Addresses of a pool in one family, as decimal numbers in strings, because
 * an IPv6 pool has more of them than fit 64 bits. `allocated` are those in
 * blocks that nodes hold, whether a pod uses them or not.
 */
export interface AddressCounts {
  /** Addresses in all blocks that the pool has room for. */
  readonly total: string;
  /** Addresses in blocks that exist. */
  readonly allocated: string;
  /** Addresses in blocks that can still be allocated. */
  readonly free: string;
  /** Addresses in blocks that exist and that pods have; absent while the pods are not known. */
  readonly used?: string;
}

/** Observed state of an {@linkcode AddressPool}, written by coil-controller. */
export interface AddressPoolStatus {
  /** `metadata.generation` of the spec that the status is about. */
  readonly observedGeneration?: number;
  /** Addresses of a block in each family, as a decimal number. */
  readonly blockSize?: string;
  /** Blocks, of either family or both. */
  readonly blocks?: BlockCounts;
  /** IPv4 addresses; absent when the pool has none. */
  readonly ipv4?: AddressCounts;
  /** IPv6 addresses; absent when the pool has none. */
  readonly ipv6?: AddressCounts;
  /** How much of the pool pods use, as a text: "6/256 (2%)"; absent while the pods are not known. */
  readonly usage?: string;
  /** Nodes that hold blocks of the pool, those with the most first, as a text; absent when none does. */
  readonly heldBy?: string;
  /** `Ready` and `CapacityLow`; others are there only while they are true. */
  readonly conditions?: readonly Condition[];
}

/** A set of addresses to hand out, cluster scoped. */
export interface AddressPool {
  readonly apiVersion: typeof GROUP_VERSION;
  /** The kind of the object. */
  readonly kind: "AddressPool";
  /** Name, labels, finalizers and the like. */
  readonly metadata: ObjectMeta;
  /** What the admin wants. */
  readonly spec: AddressPoolSpec;
  /** What the controller sees; absent until it has looked. */
  readonly status?: AddressPoolStatus;
}
