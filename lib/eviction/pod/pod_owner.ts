import {
  type KubeClient,
  type KubeObject,
  namespaced,
  type OwnerReference,
  PODS,
  type ResourceType,
  type V1Pod,
} from "../../kube/mod.ts";
import type { Patience } from "../base/patience.ts";

/** A controller of pods, as far as it is looked at; each kind has some of these. */
interface Workload extends KubeObject {
  readonly spec?: { readonly replicas?: number };
  readonly status?: {
    readonly desiredNumberScheduled?: number;
    readonly completionTime?: string;
    readonly conditions?: readonly {
      readonly type: string;
      readonly status: string;
    }[];
  };
}

/** The controllers whose desired state is known. Of others, pods alone are looked at. */
const KINDS: readonly ResourceType<Workload>[] = [
  namespaced("apps/v1/replicasets", "ReplicaSet"),
  namespaced("apps/v1/statefulsets", "StatefulSet"),
  namespaced("v1/replicationcontrollers", "ReplicationController"),
  namespaced("batch/v1/jobs", "Job"),
  namespaced("apps/v1/daemonsets", "DaemonSet"),
];

/** Current desired state of a controller. */
export interface Desired {
  /** How many pods, where that is known. */
  readonly replicas?: number;
  /** It no longer wants pods: it is gone, or done. */
  readonly isOver: boolean;
}

/** Where a controller's pods are. */
export interface PodOwner {
  readonly namespace: string;
  readonly reference: OwnerReference;
}

/** Asks a controller how many pods it wants. */
export async function desiredOf(
  { namespace, reference }: PodOwner,
  context: {
    readonly client: KubeClient;
    readonly patience: Patience;
    readonly signal: AbortSignal;
  },
): Promise<Desired> {
  const { client, patience, signal } = context;
  const [group = ""] = reference.apiVersion.includes("/")
    ? reference.apiVersion.split("/")
    : [""];
  const type = KINDS.find((known) =>
    known.kind === reference.kind && known.group === group
  );
  if (type === undefined) return { isOver: false };
  const { name } = reference;
  const owner = await patience.ask(() =>
    client.tryGet(type, { name, namespace, signal })
  );
  if (owner?.metadata?.uid !== reference.uid) return { isOver: true };
  const { spec, status } = owner;
  const replicas = spec?.replicas ?? status?.desiredNumberScheduled;
  const isOver = status?.completionTime !== undefined ||
    (type.kind === "Job" && hasFailed(status));
  return { isOver, ...(replicas === undefined ? {} : { replicas }) };
}

/** The pods that a controller has made, in any state. */
export async function podsOf(
  { namespace, reference }: PodOwner,
  context: {
    readonly client: KubeClient;
    readonly patience: Patience;
    readonly signal: AbortSignal;
  },
): Promise<V1Pod[]> {
  const { client, patience, signal } = context;
  return await patience.ask(async () => {
    const pods: V1Pod[] = [];
    await client.listItems(PODS, { namespace, signal }, (pod) => {
      const isOwn = pod.metadata?.ownerReferences?.some(({ uid }) =>
        uid === reference.uid
      );
      if (isOwn) pods.push(pod);
    });
    return pods;
  });
}

function hasFailed(status: Workload["status"]): boolean {
  return status?.conditions?.some(({ type, status }) =>
    type === "Failed" && status === "True"
  ) ?? false;
}
