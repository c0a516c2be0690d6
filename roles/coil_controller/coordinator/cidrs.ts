import { POD_CIDR_TYPES, type PodCidrType } from "../../../lib/api/mod.ts";
import { cidrsAmong, CidrsUnknownError } from "./cidr_list.ts";
import type { NetworkKind } from "./cluster_networks.ts";
import type { Lookup } from "./lookup.ts";

/** The CIDRs of something, or why they are not known. */
export type Cidrs =
  | { readonly cidrs: readonly string[] }
  | { readonly unknown: string };

/** What the API server has of the cluster's networks. */
export type Sources = Pick<Lookup, keyof Lookup>;

const OF_THE_CLUSTER =
  "neither ConfigMap kube-system/kubeadm-config nor a pod of kube-controller-manager has it";

/** CIDRs of ClusterIPs: ServiceCIDRs, else as the cluster was made. */
export async function serviceCidrs(sources: Sources): Promise<Cidrs> {
  return await orUnknown(() => foundServices(sources));
}

async function foundServices(sources: Sources): Promise<Cidrs> {
  const served = await sources.serviceCidrs() ?? [];
  if (served.length > 0) return { cidrs: served };
  const cidrs = await ofCluster(sources, "services");
  if (cidrs.length > 0) return { cidrs };
  return {
    unknown:
      `cannot find the Service CIDRs: there is no ServiceCIDR, and ${OF_THE_CLUSTER}`,
  };
}

/** CIDRs of pods of the cluster's own network. Looks up only what the type needs. */
export async function podCidrs(
  sources: Sources,
  type: string | null | undefined,
): Promise<Cidrs> {
  const known = POD_CIDR_TYPES.find((name) => name === (type || "auto"));
  if (known !== undefined) {
    return await orUnknown(() => BY_TYPE[known](sources));
  }
  return {
    unknown: `podCIDRType "${type}" is not one that coil-controller knows`,
  };
}

/** What is there and cannot be read is not what is not there. */
async function orUnknown(find: () => Promise<Cidrs>): Promise<Cidrs> {
  try {
    return await find();
  } catch (error) {
    if (!(error instanceof CidrsUnknownError)) throw error;
    return { unknown: error.message };
  }
}

const BY_TYPE: Readonly<
  Record<PodCidrType, (sources: Sources) => Promise<Cidrs>>
> = {
  none: () => Promise.resolve({ cidrs: [] }),
  cluster: clusterCidrs,
  async calico(sources) {
    const cidrs = await sources.calico();
    if (cidrs !== undefined) return { cidrs };
    return {
      unknown:
        "the API server has no IPPools of Calico (crd.projectcalico.org)",
    };
  },
  async cilium(sources) {
    const config = await sources.cilium();
    if (config !== undefined) return await ciliumCidrs(sources, config);
    return { unknown: "there is no ConfigMap kube-system/cilium-config" };
  },
  auto: detectedCidrs,
};

/** Detected from what the cluster has, since files of the controller's node say nothing of other nodes. */
async function detectedCidrs(sources: Sources): Promise<Cidrs> {
  const calico = await sources.calico() ?? [];
  if (calico.length > 0) return { cidrs: calico };
  const cilium = await sources.cilium();
  if (cilium !== undefined) return await ciliumCidrs(sources, cilium);
  const pools = await sources.pools() ?? [];
  if (pools.length > 0) return { cidrs: pools };
  return { cidrs: await sources.kubeadm("pods") };
}

async function clusterCidrs(sources: Sources): Promise<Cidrs> {
  const cidrs = await ofCluster(sources, "pods");
  if (cidrs.length > 0) return { cidrs };
  return { unknown: `cannot find the pod CIDRs: ${OF_THE_CLUSTER}` };
}

async function ciliumCidrs(
  sources: Sources,
  config: Readonly<Record<string, string>>,
): Promise<Cidrs> {
  const { ipam = "cluster-pool" } = config;
  switch (ipam.trim()) {
    case "cluster-pool":
    case "cluster-pool-v2beta": {
      const { "cluster-pool-ipv4-cidr": ipv4, "cluster-pool-ipv6-cidr": ipv6 } =
        config;
      // One each upstream, several with blanks between them in later versions.
      const texts = [ipv4 ?? "", ipv6 ?? ""].flatMap((t) => t.split(/[\s,]+/));
      return {
        cidrs: cidrsAmong(texts, "ConfigMap kube-system/cilium-config"),
      };
    }
    case "multi-pool": {
      const cidrs = await sources.ciliumPools();
      if (cidrs !== undefined) return { cidrs };
      return { unknown: "the API server has no CiliumPodIPPools" };
    }
    case "kubernetes":
      return await clusterCidrs(sources);
    default:
      // Upstream's words.
      return { unknown: `unsupported Cilium IPAM mode: ${ipam}` };
  }
}

/** As kubeadm was configured, else as the controller manager was started. */
async function ofCluster(
  sources: Sources,
  kind: NetworkKind,
): Promise<readonly string[]> {
  let malformed: CidrsUnknownError | undefined;
  try {
    const kubeadm = await sources.kubeadm(kind);
    if (kubeadm.length > 0) return kubeadm;
  } catch (error) {
    if (!(error instanceof CidrsUnknownError)) throw error;
    malformed = error;
  }
  const manager = await sources.manager(kind) ?? [];
  if (manager.length === 0 && malformed !== undefined) throw malformed;
  return manager;
}
