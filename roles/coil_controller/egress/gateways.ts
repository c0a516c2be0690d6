import {
  type Egress,
  EGRESSES,
  type EgressGatewayStatus,
} from "../../../lib/api/mod.ts";
import {
  type JsonPatchOperation,
  type KubeClient,
  type KubeObject,
  LIVE_PODS,
  PODS,
  type Store,
} from "../../../lib/kube/mod.ts";

export interface ReapOptions {
  readonly client: KubeClient;
  /** Pods of Egresses. */
  readonly pods: Store<KubeObject>;
  readonly signal: AbortSignal;
}

/**
 * Removes the entries of pods that are gone from the status of an Egress, and returns what is left. A pod that is not in the cache is asked
 * for, since it may be newer than the cache.
 */
export async function reapGateways(
  egress: Egress,
  { client, pods, signal }: ReapOptions,
): Promise<readonly EgressGatewayStatus[]> {
  const { namespace = "", name = "" } = egress.metadata;
  const gateways = egress.status?.gateways ?? [];
  const gone = new Set<string>();
  for (const gateway of gateways) {
    if (pods.get(`${namespace}/${gateway.name}`) !== undefined) continue;
    const { items } = await client.list(PODS, {
      namespace,
      fieldSelector: `metadata.name=${gateway.name},${LIVE_PODS}`,
      metadataOnly: true,
      signal,
    });
    if (items.length === 0) gone.add(gateway.name);
  }
  if (gone.size === 0) return gateways;
  const patch = [
    // A later Egress of this name has gateways of its own.
    { op: "test", path: "/metadata/uid", value: egress.metadata.uid } as const,
    ...removalOf(gateways, gone),
  ];
  await client.patch(EGRESSES, { namespace, name, signal }, patch, {
    kind: "json",
    subresource: "status",
  });
  return gateways.filter((gateway) => !gone.has(gateway.name));
}

/** From the end, so that what was removed does not move the rest; each removal only of what it is meant for. */
function removalOf(
  gateways: readonly EgressGatewayStatus[],
  gone: ReadonlySet<string>,
): JsonPatchOperation[] {
  const operations: JsonPatchOperation[] = [];
  for (const [index, { name }] of [...gateways.entries()].reverse()) {
    if (!gone.has(name)) continue;
    const path = `/status/gateways/${index}`;
    operations.push({ op: "test", path: `${path}/name`, value: name });
    operations.push({ op: "remove", path });
  }
  return operations;
}
