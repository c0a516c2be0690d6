// A cluster's size as the API server shows it: pods elsewhere, nodes, blocks.
import {
  ADDRESS_POOLS,
  BLOCK_REQUESTS,
  newBlockRequest,
  poolOf,
} from "../../../lib/api/mod.ts";
import { Informer, KubeClient } from "../../../lib/kube/mod.ts";
import type { ControlPlane } from "../../lab/mod.ts";
import { many } from "../many.ts";
import { storeBlocks } from "./stored.ts";

const WIDTH = 32;
/** The blocks before it are for requests, which get the first that are free. */
const FIRST_INDEX = 100_000;
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

/** A Node object. */
export interface BigNode {
  readonly name: string;
  readonly uid: string;
}

/** Creates Node objects `big-0` …, all with this address if one is given. */
export async function createNodes(
  plane: ControlPlane,
  count: number,
  { address }: { readonly address?: string } = {},
): Promise<BigNode[]> {
  const status = address === undefined
    ? {}
    : { addresses: [{ type: "InternalIP", address }] };
  const nodes: BigNode[] = [];
  await many(count, WIDTH, async (i) => {
    const name = `big-${i}`;
    const { metadata } = await plane.request("POST", "/api/v1/nodes", {
      apiVersion: "v1",
      kind: "Node",
      metadata: { name },
      status,
    }) as { metadata: { uid: string } };
    nodes[i] = { name, uid: metadata.uid };
  });
  return nodes;
}

/** Stores `perNode` blocks for each of the nodes, which have this address, out of the pool `big`. */
export async function createBlocks(
  plane: ControlPlane,
  options: {
    readonly nodes: number;
    readonly perNode: number;
    readonly address: string;
  },
): Promise<void> {
  using client = await KubeClient.load({ kubeconfig: plane.kubeconfig });
  const pool = poolOf(await client.get(ADDRESS_POOLS, { name: "big" }));
  await storeBlocks(plane, options.nodes * options.perNode, {
    pool,
    blockOf: (index) => ({
      index: FIRST_INDEX + index,
      node: `big-${index % options.nodes}`,
      nodeAddresses: options.address,
    }),
  });
}

/**
 * These nodes ask for one block each at once, as an administrator or whom the
 * token is of; returns how long each waited from sending its request to the
 * sight of its completion, in ms.
 */
export async function requestBlocks(
  plane: ControlPlane,
  nodes: readonly BigNode[],
  { token = plane.adminToken }: { readonly token?: string } = {},
): Promise<number[]> {
  using client = await KubeClient.load({ kubeconfig: plane.kubeconfig });
  using asked = await KubeClient.load({
    kubeconfig: await plane.kubeconfigFor({ token }),
  });
  const started = new Map<string, number>();
  const times: number[] = [];
  const done = new AbortController();
  const informer = new Informer(client, BLOCK_REQUESTS);
  using _subscription = informer.subscribe(({ key, object }) => {
    const since = started.get(key);
    const complete = (object.status?.conditions ?? []).length > 0;
    if (!complete || since === undefined || !started.delete(key)) return;
    times.push(performance.now() - since);
    if (times.length === nodes.length) done.abort();
  });
  const watching = informer.run(done.signal);
  await informer.synced;
  await Promise.all(nodes.map((node) => {
    const request = newBlockRequest("big", node);
    started.set(request.metadata.name ?? "", performance.now());
    return asked.create(BLOCK_REQUESTS, request, { timeoutMs: PATIENCE_MS });
  }));
  await watching;
  return times;
}
