import { waitWhile } from "../../../lib/async/mod.ts";
import {
  CLUSTER_ROLE_BINDINGS,
  clusterWide,
  CONFIG_MAPS,
  DAEMON_SETS,
  DEPLOYMENTS,
  type KubeClient,
  type KubeObject,
  type ResourceType,
  SERVICE_ACCOUNTS,
  unlessGone,
} from "../../../lib/kube/mod.ts";
import {
  APP_NAME,
  APP_NAME_LABEL,
  SYSTEM_NAMESPACE,
} from "../../../lib/names/mod.ts";
import { CommandError } from "../../../lib/command/mod.ts";

/** An object of v1's installation that is there. */
export interface V1Workload {
  readonly type: ResourceType<KubeObject>;
  readonly namespace: string | undefined;
  readonly name: string;
  readonly uid: string;
}

export interface RemovalOptions {
  readonly signal: AbortSignal;
  /** For each object, with all that depends on it. */
  readonly timeoutMs: number;
}

const POLL_MS = 500;
const CLUSTER_ROLES: ResourceType<KubeObject> = clusterWide(
  "rbac.authorization.k8s.io/v1/clusterroles",
  "ClusterRole",
);

/** v1's manifests, in the order in which they are removed: first what gives out addresses. */
const OBJECTS: readonly (readonly [ResourceType<KubeObject>, string])[] = [
  [DAEMON_SETS, "coil-node"],
  [DEPLOYMENTS, "coil-controllers"],
  [CONFIG_MAPS, "coil-config"],
  [CLUSTER_ROLE_BINDINGS, "coil-node"],
  [CLUSTER_ROLE_BINDINGS, "coil-controllers"],
  [CLUSTER_ROLES, "coil-node"],
  [CLUSTER_ROLES, "coil-controllers"],
  [SERVICE_ACCOUNTS, "coil-node"],
  [SERVICE_ACCOUNTS, "coil-controller"],
];

/**
 * Finds what there is of v1's installation.
 *
 * v2 has a service account `coil-controller` too. What carries v2's label is not v1's.
 */
export async function findV1Workloads(
  client: KubeClient,
  { signal }: { readonly signal: AbortSignal },
): Promise<V1Workload[]> {
  const found: V1Workload[] = [];
  for (const [type, name] of OBJECTS) {
    const namespace = type.namespaced ? SYSTEM_NAMESPACE : undefined;
    const object = await client.tryGet(type, {
      name,
      namespace,
      metadataOnly: true,
      signal,
    });
    const { uid, labels } = object?.metadata ?? {};
    if (uid === undefined || labels?.[APP_NAME_LABEL] === APP_NAME) continue;
    found.push({ type, namespace, name, uid });
  }
  return found;
}

/** Whether one of them gives out addresses. */
export function isAtWork(workloads: readonly V1Workload[]): boolean {
  return workloads.some(({ type }) =>
    type.kind === "DaemonSet" || type.kind === "Deployment"
  );
}

/** `DaemonSet kube-system/coil-node` */
export function workloadText(
  { type, namespace, name }: V1Workload,
): string {
  const key = namespace === undefined ? name : `${namespace}/${name}`;
  return `${type.kind} ${key}`;
}

/**
 * Deletes an object and all that depends on it, and waits until it is gone. Idempotent.
 *
 * @throws {CommandError} when it is still there after the time
 */
export async function removeWorkload(
  client: KubeClient,
  workload: V1Workload,
  { signal, timeoutMs }: RemovalOptions,
): Promise<void> {
  const { type, namespace, name, uid } = workload;
  const target = { name, namespace, signal };
  await unlessGone(() =>
    client.delete(type, {
      ...target,
      preconditions: { uid },
      propagationPolicy: "Foreground",
    })
  );
  await waitWhile(async () => {
    const object = await client.tryGet(type, { ...target, metadataOnly: true });
    return object?.metadata?.uid === uid ? object : undefined;
  }, {
    timeoutMs,
    pollMs: POLL_MS,
    signal,
    late: () => stillThere(workload, timeoutMs),
  });
}

function stillThere(workload: V1Workload, timeoutMs: number): CommandError {
  return new CommandError(
    `Cannot remove ${workloadText(workload)}: it is still there after ${
      timeoutMs / 1000
    } s
Its pods may be on nodes that do not answer, or it has a finalizer: "kubectl describe" shows which. The manifest is written; run the same command again to go on.`,
  );
}
