import { Address } from "../../inet/mod.ts";
import { isReadyPod, type OwnerReference, type V1Pod } from "../../kube/mod.ts";
import { type NamespacedName, POOL_ANNOTATION } from "../../names/mod.ts";

/** What a pod that the kubelet made from a file carries: k8s.io/kubernetes/pkg/kubelet/types. */
const MIRROR_ANNOTATION = "kubernetes.io/config.mirror";

/** A pod that has not ended, as far as its replacement looks at it. */
export interface LivePod extends NamespacedName {
  readonly uid: string;
  /** Empty until it is scheduled. */
  readonly node: string;
  /** None in the host's network. */
  readonly addresses: readonly Address[];
  /** Who recreates it when it is gone. */
  readonly controller: OwnerReference | undefined;
  /** Whether it is made from a file on its node: it cannot be evicted. */
  readonly isStatic: boolean;
  /** Its own annotation that chooses address pools. */
  readonly pools?: string | undefined;
  readonly isReady: boolean;
  readonly isDeleting: boolean;
}

/** Keeps of a pod what is looked at. */
export function livePodOf(pod: V1Pod): LivePod {
  const { metadata, spec } = pod;
  return {
    namespace: metadata?.namespace ?? "",
    name: metadata?.name ?? "",
    uid: metadata?.uid ?? "",
    node: spec?.nodeName ?? "",
    addresses: addressesOf(pod),
    controller: metadata?.ownerReferences?.find(({ controller }) => controller),
    isStatic: metadata?.annotations?.[MIRROR_ANNOTATION] !== undefined,
    pools: metadata?.annotations?.[POOL_ANNOTATION],
    isReady: isReadyPod(pod),
    isDeleting: metadata?.deletionTimestamp !== undefined,
  };
}

/** The addresses that a pod has of its own: none in the host's network. */
export function addressesOf({ spec, status }: V1Pod): Address[] {
  if (spec?.hostNetwork === true || spec?.nodeName === undefined) return [];
  return (status?.podIPs ?? []).flatMap(({ ip }) => Address.tryParse(ip) ?? []);
}
