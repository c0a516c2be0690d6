// A cluster's size as the API server shows it: pods elsewhere, nodes, blocks.
import { BLOCK_REQUESTS, newBlockRequest } from "../../lib/api/mod.ts";
import { Informer, KubeClient } from "../../lib/kube/mod.ts";
import type { ControlPlane } from "../lab/mod.ts";
import { many } from "./many.ts";

const WIDTH = 32;
const PATIENCE_MS = 300_000;

/** Creates pods bound to nodes that do not run Coil. */
export async function createPodsElsewhere(
  plane: ControlPlane,
  count: number,
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
          nodeName: `elsewhere-${i % 100}`,
          containers: [{ name: "main", image: "none" }],
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

/** The `index`-th /27 of 10.0.0.0/8. */
function block(index: number): string {
  const base = 10 * 2 ** 24 + index * 32;
  const octets = [24, 16, 8, 0].map((shift) =>
    Math.floor(base / 2 ** shift) % 256
  );
  return `${octets.join(".")}/27`;
}

/** Creates `perNode` blocks for each of the nodes, out of the pool `big`. */
export async function createBlocks(
  plane: ControlPlane,
  options: { readonly nodes: number; readonly perNode: number },
): Promise<void> {
  const pool = await plane.request(
    "GET",
    "/apis/coil.cybozu.com/v2/addresspools/big",
  ) as { metadata: { uid: string } };
  await many(
    options.nodes * options.perNode,
    WIDTH,
    (index) =>
      plane.request("POST", "/apis/coil.cybozu.com/v2/addressblocks", {
        apiVersion: "coil.cybozu.com/v2",
        kind: "AddressBlock",
        metadata: {
          name: `big-${index}`,
          labels: {
            "coil.cybozu.com/pool": "big",
            "coil.cybozu.com/node": `big-${index % options.nodes}`,
            "coil.cybozu.com/request": crypto.randomUUID(),
          },
          finalizers: ["coil.cybozu.com"],
          ownerReferences: [{
            apiVersion: "coil.cybozu.com/v2",
            kind: "AddressPool",
            name: "big",
            uid: pool.metadata.uid,
            controller: true,
            blockOwnerDeletion: true,
          }],
        },
        index,
        ipv4: block(index),
      }),
  );
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
