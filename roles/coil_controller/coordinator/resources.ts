import {
  clusterWide,
  type KubeObject,
  type ResourceType,
  SERVICE_CIDRS,
  type V1ServiceCidr,
} from "../../../lib/kube/mod.ts";

/** An IPPool of Calico, as far as it is read. */
export interface CalicoPool extends KubeObject {
  readonly spec?: { readonly cidr?: string; readonly disabled?: boolean };
}

/** A CiliumPodIPPool, as far as it is read. */
export interface CiliumPool extends KubeObject {
  readonly spec?: {
    readonly ipv4?: { readonly cidrs?: readonly string[] };
    readonly ipv6?: { readonly cidrs?: readonly string[] };
  };
}

export const CALICO_POOLS: ResourceType<CalicoPool> = clusterWide(
  "crd.projectcalico.org/v1/ippools",
  "IPPool",
);

export const CILIUM_POOLS: ResourceType<CiliumPool> = clusterWide(
  "cilium.io/v2alpha1/ciliumpodippools",
  "CiliumPodIPPool",
);

/** ServiceCIDRs of Kubernetes 1.31 and 1.32. */
export const SERVICE_CIDRS_BETA: ResourceType<V1ServiceCidr> = {
  ...SERVICE_CIDRS,
  version: "v1beta1",
};
