import type { ObjectMeta } from "../kube/mod.ts";

/** The one SpiderCoordinator that counts. */
export const SPIDER_COORDINATOR_NAME = "default";

/** `phase` of a SpiderCoordinator whose CIDRs are known. */
export const SPIDER_SYNCED = "Synced";

/** `phase` of a SpiderCoordinator whose CIDRs were never known. */
export const SPIDER_NOT_READY = "NotReady";

/** Where the CIDRs of the cluster's pods come from. */
export const POD_CIDR_TYPES = [
  "auto",
  "cluster",
  "calico",
  "cilium",
  "none",
] as const;

/** One of {@linkcode POD_CIDR_TYPES}. */
export type PodCidrType = typeof POD_CIDR_TYPES[number];

/**
 * Desired state of a {@linkcode SpiderCoordinator}. All but `podCIDRType` are
 * fields of the plugin's network configuration, too, and mean the same there.
 * They are as Spiderpool's API server may have let them in.
 */
export interface SpiderCoordinatorSpec {
  /** Absent is `auto`. */
  readonly podCIDRType?: string | null;
  readonly [field: string]: unknown;
}

/** Observed state of a {@linkcode SpiderCoordinator}, written by a controller. */
export interface SpiderCoordinatorStatus {
  /** {@linkcode SPIDER_SYNCED} or {@linkcode SPIDER_NOT_READY}. */
  readonly phase?: string;
  /** What keeps it from being ready, or what is not up to date. */
  readonly reason?: string;
  /** CIDRs of pods of the cluster's own network. */
  readonly overlayPodCIDR?: readonly string[] | null;
  /** CIDRs of ClusterIPs. */
  readonly serviceCIDR?: readonly string[] | null;
}

/** Defaults of the plugin `coordinator` for the whole cluster: Spiderpool's resource, cluster scoped. */
export interface SpiderCoordinator {
  readonly apiVersion: "spiderpool.spidernet.io/v2beta1";
  /** The kind of the object. */
  readonly kind: "SpiderCoordinator";
  /** Name, labels and the like. */
  readonly metadata: ObjectMeta;
  /** What the admin wants; absent: all defaults. */
  readonly spec?: SpiderCoordinatorSpec;
  /** What the controller sees; absent until it has looked. */
  readonly status?: SpiderCoordinatorStatus;
}
