// A cluster's size as the API server shows it: pods elsewhere, nodes, blocks.
import {
  ADDRESS_BLOCKS,
  ADDRESS_POOLS,
  BLOCK_REQUESTS,
  newAddressBlock,
  newBlockRequest,
  poolOf,
} from "../../lib/api/mod.ts";
import { Informer, KubeClient } from "../../lib/kube/mod.ts";
import type { ControlPlane } from "../lab/mod.ts";
import { many } from "./many.ts";

const WIDTH = 32;
const PATIENCE_MS = 300_000;

/** Creates pods bound to nodes that do not run Coil, or to the one that is named. */
export async function createPodsElsewhere(
  plane: Pick<ControlPlane, "apply" | "request">,
  count: number,
  options: { readonly node?: string } = {},
): Promise<void> {
  await plane.apply({
    apiVersion: "v1",
    kind: "Namespace",
    metadata: { name: "elsewhere" },
  });
  await many(
    count,
    WIDTH,
    (i) =>
      plane.request("POST", "/api/v1/namespaces/elsewhere/pods", {
        apiVersion: "v1",
        kind: "Pod",
        metadata: { name: `pod-${i}` },
        spec: {
          nodeName: options.node ?? `elsewhere-${i % 100}`,
          containers: [{ name: "main", image: "none" }],
          tolerations: [{ operator: "Exists" }],
        },
      }),
  );
}

/** Creates Node objects `big-0` … and returns their UIDs. */
export async function createNodes(
  plane: ControlPlane,
  count: number,
): Promise<string[]> {
  const uids: string[] = [];
  await many(count, WIDTH, async (i) => {
    const node = await plane.request("POST", "/api/v1/nodes", {
      apiVersion: "v1",
      kind: "Node",
      metadata: { name: `big-${i}` },
    }) as { metadata: { uid: string } };
    uids[i] = node.metadata.uid;
  });
  return uids;
}

/** Creates `perNode` blocks for each of the nodes, out of the pool `big`. */
export async function createBlocks(
  plane: ControlPlane,
  options: { readonly nodes: number; readonly perNode: number },
): Promise<void> {
  using client = await KubeClient.load({ kubeconfig: plane.kubeconfig });
  const pool = poolOf(await client.get(ADDRESS_POOLS, { name: "big" }));
  await many(options.nodes * options.perNode, WIDTH, async (index) => {
    const block = newAddressBlock(pool, {
      index,
      node: `big-${index % options.nodes}`,
      requestUid: crypto.randomUUID(),
    });
    if (block === undefined) {
      throw new RangeError(`Cannot create block ${index}: pool "big" has none`);
    }
    await client.create(ADDRESS_BLOCKS, block);
  });
}

/**
 * All nodes ask for one block at once; returns how long each waited from
 * sending its request to the sight of its completion, in ms.
 */
export async function requestBlocks(
  plane: ControlPlane,
  nodeUids: readonly string[],
): Promise<number[]> {
  using client = await KubeClient.load({ kubeconfig: plane.kubeconfig });
  const started = new Map<string, number>();
  const times: number[] = [];
  const done = new AbortController();
  const informer = new Informer(client, BLOCK_REQUESTS);
  using _subscription = informer.subscribe(({ key, object }) => {
    const since = started.get(key);
    const complete = (object.status?.conditions ?? []).length > 0;
    if (!complete || since === undefined || !started.delete(key)) return;
    times.push(performance.now() - since);
    if (times.length === nodeUids.length) done.abort();
  });
  const watching = informer.run(done.signal);
  await informer.synced;
  await Promise.all(nodeUids.map((uid, i) => {
    const request = newBlockRequest("big", { name: `big-${i}`, uid });
    started.set(request.metadata.name ?? "", performance.now());
    return client.create(BLOCK_REQUESTS, request, { timeoutMs: PATIENCE_MS });
  }));
  await watching;
  return times;
}
