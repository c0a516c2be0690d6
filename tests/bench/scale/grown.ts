// What 50,000 blocks cost: lists of them, and coil-router.
import {
  ADDRESS_BLOCKS,
  ADDRESS_POOLS,
  newAddressBlock,
  poolOf,
} from "../../../lib/api/mod.ts";
import { Informer, KubeClient, resourcePath } from "../../../lib/kube/mod.ts";
import { NODE_LABEL } from "../../../lib/names/mod.ts";
import type { CoilCluster } from "../../lab/coil.ts";
import {
  createMemoryGroup,
  labCgroup,
  removeCgroup,
} from "../../lab/cluster/cgroups.ts";
import { type ControlPlane, eventually, run, sleep } from "../../lab/mod.ts";
import { type Figure, figure } from "../figures.ts";
import {
  memoryOf,
  peakOf,
  processorSeconds,
  workingSetOf,
} from "../process_memory.ts";

const BLOCKS = resourcePath(ADDRESS_BLOCKS);
const SETTLE_MS = 10_000;
const CHANGES_PER_S = 15;
const CHANGES_S = 180;
/** Numbers of blocks that nobody has yet. */
const SPARE_INDEX = 300_000;
/** A busy machine takes minutes for so many. */
const READY_MS = 900_000;

/** One node's blocks by label as coild lists them, and from the server's cache one block, and all of them by a list and by a watch. */
export async function listFigures(plane: ControlPlane): Promise<Figure[]> {
  const server = plane.apiServer?.pid;
  if (server === undefined) throw new Error("No API server runs");
  const label = `${NODE_LABEL}%3Dbig-7`;
  const own = `${BLOCKS}?labelSelector=${label}`;
  const { items: [block] } = await plane.request("GET", own) as {
    items: { metadata: { name: string } }[];
  };
  const uris = {
    label: [own, 50],
    get: [`${BLOCKS}/${block?.metadata.name}?resourceVersion=0`, 200],
    all: [`${BLOCKS}?resourceVersion=0`, 5],
  } as const;
  using client = await KubeClient.load({ kubeconfig: plane.kubeconfig });
  const reads = [
    ...Object.entries(uris).map(([name, [uri, count]]) =>
      [name, count, () => plane.request("GET", uri)] as const
    ),
    ["watch", 5, () => readByWatch(client)] as const,
  ];
  const figures: Figure[] = [];
  for (const [name, count, read] of reads) {
    const times: number[] = [];
    const beforeS = processorSeconds(server);
    for (let i = 0; i < count; i++) {
      const startMs = performance.now();
      await read();
      times.push(performance.now() - startMs);
    }
    const eachMs = 1000 * (processorSeconds(server) - beforeS) / count;
    figures.push(
      figure(`list.${name}`, "ms", times),
      figure(`list.${name}.server`, "ms", [eachMs]),
    );
  }
  return figures;
}

/** Reads all blocks as coil-router does at its start. */
async function readByWatch(client: KubeClient): Promise<void> {
  const stop = new AbortController();
  const blocks = new Informer(client, ADDRESS_BLOCKS);
  const running = blocks.run(stop.signal);
  await blocks.synced;
  stop.abort();
  await running;
}

/** coil-router with a route for each of so many blocks, while blocks come and go. */
export async function routerFigures(
  cluster: CoilCluster,
  { blocks, address }: { readonly blocks: number; readonly address: string },
): Promise<Figure[]> {
  const [node] = cluster.nodes;
  if (node === undefined) throw new Error("Cannot route without a node");
  await using undo = new AsyncDisposableStack();
  const path = `${labCgroup(cluster.plane.name)}-router`;
  undo.defer(() => removeCgroup(path));
  const memoryGroup = await createMemoryGroup(path);
  const router = undo.use(await cluster.startRouter(node, { memoryGroup }));
  const startMs = performance.now();
  await eventually("all routes", async () => {
    const text = await run("ip", ["-n", node.netns, "-4", "route"]);
    return text.split("\n").length >= blocks;
  }, { timeoutMs: READY_MS, intervalMs: 2_000 });
  const readyMs = performance.now() - startMs;
  await sleep(SETTLE_MS);
  const beforeS = processorSeconds(router.pid);
  await changeBlocks(cluster.plane, address);
  const busyS = processorSeconds(router.pid) - beforeS;
  const memory = memoryOf(router.pid);
  return [
    figure("router.start", "ms", [readyMs]),
    figure("router.processor", "%", [100 * busyS / CHANGES_S], {
      target: "≤ 2",
    }),
    figure("rss.router", "MiB", [memory.residentMiB], { target: "≤ 64" }),
    figure("pss.router", "MiB", [memory.proportionalMiB]),
    figure("anonymous.router", "MiB", [memory.anonymousMiB]),
    figure("workingset.router", "MiB", [workingSetOf(memoryGroup)], {
      target: "≤ 64",
    }),
    figure("rss.router.peak", "MiB", [peakOf(router.pid)]),
  ];
}

/** 15 changes in each second, for three minutes: in turn a new block, and the return of an older one. */
async function changeBlocks(
  plane: ControlPlane,
  address: string,
): Promise<void> {
  using client = await KubeClient.load({ kubeconfig: plane.kubeconfig });
  const pool = poolOf(await client.get(ADDRESS_POOLS, { name: "big" }));
  const startMs = performance.now();
  const names: string[] = [];
  for (let i = 0; i < CHANGES_PER_S * CHANGES_S; i++) {
    const name = i % 2 === 0 ? undefined : names.shift();
    if (name === undefined) {
      const block = newAddressBlock(pool, {
        index: SPARE_INDEX + i,
        node: `big-${i % 100}`,
        nodeAddresses: address,
        requestUid: crypto.randomUUID(),
      });
      if (block === undefined) {
        throw new RangeError("The pool has no such block");
      }
      await client.create(ADDRESS_BLOCKS, block);
      names.push(block.metadata.name ?? "");
    } else {
      const noFinalizer = { metadata: { finalizers: null } };
      const kind = "merge";
      await client.patch(ADDRESS_BLOCKS, { name }, noFinalizer, { kind });
      await client.delete(ADDRESS_BLOCKS, { name });
    }
    const dueMs = startMs + 1000 * (i + 1) / CHANGES_PER_S;
    await sleep(Math.max(0, dueMs - performance.now()));
  }
}
