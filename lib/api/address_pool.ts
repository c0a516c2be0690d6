import type { GROUP_VERSION } from "../names/mod.ts";
import type { Condition, ObjectMeta } from "./meta.ts";

/** One entry of a pool's `spec.subnets`: CIDRs as the admin wrote them. */
export interface SubnetSpec {
  readonly ipv4?: string;
  readonly ipv6?: string;
}

/** Desired state of an {@linkcode AddressPool}. */
export interface AddressPoolSpec {
  /** A block has 2 to the power of this many addresses. The API server fills in 5. */
  readonly blockSizeBits?: number;
  readonly subnets: readonly SubnetSpec[];
}

/** Blocks of a pool: how many there can be, exist, and can still be carved. */
export interface BlockCounts {
  readonly total: number;
  readonly allocated: number;
  readonly free: number;
}

/**
 * Addresses of a pool in one family, as decimal numbers in strings, because
 * an IPv6 pool has more of them than fit 64 bits. `allocated` are those in
 * blocks that nodes hold, whether a pod uses them or not.
 */
export interface AddressCounts {
  readonly total: string;
  readonly allocated: string;
  readonly free: string;
}

/** Observed state of an {@linkcode AddressPool}, written by coil-controller. */
export interface AddressPoolStatus {
  readonly observedGeneration?: number;
  readonly blocks?: BlockCounts;
  readonly ipv4?: AddressCounts;
  readonly ipv6?: AddressCounts;
  readonly conditions?: readonly Condition[];
}

/** A set of addresses to hand out, cluster scoped. */
export interface AddressPool {
  readonly apiVersion: typeof GROUP_VERSION;
  readonly kind: "AddressPool";
  readonly metadata: ObjectMeta;
  readonly spec: AddressPoolSpec;
  readonly status?: AddressPoolStatus;
}
