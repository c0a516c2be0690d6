import {
  type EgressReferences,
  parseEgressAnnotations,
} from "../../../lib/api/mod.ts";
import { Address } from "../../../lib/inet/mod.ts";
import type { V1Pod } from "../../../lib/kube/mod.ts";

/** Phases from which no pod comes back. */
const ENDED: ReadonlySet<string> = new Set(["Succeeded", "Failed"]);

/** A pod that is a client of this gateway's Egress. */
export interface ClientPod {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  /** Absent until it is scheduled. */
  readonly nodeName?: string;
  /** Its addresses as its status has them; none until it runs. */
  readonly addresses: readonly Address[];
}

/**
 * Whether the pod is a client of the Egress: its annotation names it, it has
 * an address of its own, and it has not ended.
 */
export function isClientPod(
  pod: V1Pod,
  egress: { readonly namespace: string; readonly name: string },
): boolean {
  if (pod.spec?.hostNetwork === true) return false;
  if (ENDED.has(pod.status?.phase ?? "")) return false;
  const names = ({ namespace, names }: EgressReferences) =>
    namespace === egress.namespace && names.includes(egress.name);
  return parseEgressAnnotations(pod.metadata?.annotations).some(names);
}

/** Keeps what {@linkcode clientPodOf} reads, and by what a change is told. */
export function transformClientPod(pod: V1Pod): V1Pod {
  const { name, namespace, uid, resourceVersion } = pod.metadata ?? {};
  const { nodeName } = pod.spec ?? {};
  return {
    metadata: {
      ...(name !== undefined && { name }),
      ...(namespace !== undefined && { namespace }),
      ...(uid !== undefined && { uid }),
      ...(resourceVersion !== undefined && { resourceVersion }),
    },
    ...(nodeName !== undefined && { spec: { nodeName, containers: [] } }),
    status: { podIPs: pod.status?.podIPs ?? [] },
  };
}

/** Reads a client from its pod. What is no address in its status is left out. */
export function clientPodOf(pod: V1Pod): ClientPod {
  const { name = "", namespace = "", uid = "" } = pod.metadata ?? {};
  const nodeName = pod.spec?.nodeName;
  const addresses = (pod.status?.podIPs ?? [])
    .map(({ ip }) => Address.tryParse(ip ?? ""))
    .filter((address) => address !== undefined);
  return {
    namespace,
    name,
    uid,
    addresses,
    ...(nodeName !== undefined && { nodeName }),
  };
}
