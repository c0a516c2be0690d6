import {
  type KubeClient,
  LIVE_PODS,
  NAMESPACES,
  NODES,
  PODS,
  type V1Namespace,
} from "../../../lib/kube/mod.ts";
import type { AddressedPod, ClusterFacts } from "../convert/conversion.ts";
import { addressesOf, Patience } from "../../../lib/eviction/mod.ts";

/** How long the API server may take for a moment. */
const PATIENCE_MS = 20_000;

/** Reads what the conversion needs, keeping of each object only that: a cluster may have 100,000 pods. */
export async function readClusterFacts(
  client: KubeClient,
  { signal }: { readonly signal: AbortSignal },
): Promise<ClusterFacts> {
  const patience = new Patience({ timeoutMs: PATIENCE_MS, signal });
  return await patience.ask(() => readOnce(client, signal));
}

async function readOnce(
  client: KubeClient,
  signal: AbortSignal,
): Promise<ClusterFacts> {
  const nodes = new Set<string>();
  const namespaces: V1Namespace[] = [];
  const pods: AddressedPod[] = [];
  await client.listItems(NODES, { metadataOnly: true, signal }, (node) => {
    nodes.add(node.metadata?.name ?? "");
  });
  await client.listItems(NAMESPACES, { metadataOnly: true, signal }, (item) => {
    namespaces.push(item);
  });
  // The addresses of pods that have ended are free.
  await client.listItems(PODS, { fieldSelector: LIVE_PODS, signal }, (pod) => {
    const addresses = addressesOf(pod);
    if (addresses.length === 0) return;
    const { namespace = "", name = "" } = pod.metadata ?? {};
    pods.push({ namespace, name, node: pod.spec?.nodeName ?? "", addresses });
  });
  return { nodes, namespaces, pods };
}
