// `coil ipam check` of a large cluster, on the real API server.
import { ADDRESS_POOLS, poolOf } from "../../lib/api/mod.ts";
import { Address } from "../../lib/inet/mod.ts";
import { KubeClient } from "../../lib/kube/mod.ts";
import { installCrds } from "../apiserver/crds.ts";
import { ControlPlane, removeLabOnSignals, sleep } from "../lab/mod.ts";
import { type Figure, figure } from "./figures.ts";
import { peakOf } from "./process_memory.ts";
import { storeBlocks, storeObjects, storePods } from "./scale/stored.ts";

const NAME = "bench-check";
const NODES = 5_000;
const BLOCKS_EACH = 10;
const PODS_EACH = 20;
const ROUNDS = 3;
/** Reading the status of a process costs next to nothing. */
const LOOK_MS = 20;

export interface CheckBench {
  readonly executable: string;
  readonly quick: boolean;
  readonly log: (text: string) => void;
}

/** `check.*`: time and peak memory of the command, with 10 blocks and 20 pods for each node, all of which fit. */
export async function checkFigures(bench: CheckBench): Promise<Figure[]> {
  const { executable, quick, log } = bench;
  removeLabOnSignals(NAME, log);
  await using plane = await ControlPlane.start({ name: NAME, log });
  await installCrds(plane);
  const nodes = quick ? NODES / 10 : NODES;
  log(`${nodes} nodes with ${BLOCKS_EACH} blocks and ${PODS_EACH} pods each`);
  await storeCluster(plane, nodes);
  const seconds: number[] = [];
  const peaks: number[] = [];
  for (let n = 0; n < ROUNDS; n++) {
    const { elapsedS, peakMiB } = await check(executable, plane);
    seconds.push(elapsedS);
    peaks.push(peakMiB);
  }
  return [
    figure("check.100k", "s", seconds, { target: "≤ 10" }),
    figure("check.100k.peak", "MiB", peaks, { target: "≤ 300" }),
  ];
}

async function storeCluster(plane: ControlPlane, nodes: number): Promise<void> {
  await plane.apply(
    { apiVersion: "v1", kind: "Namespace", metadata: { name: "elsewhere" } },
    {
      apiVersion: "coil.cybozu.com/v2",
      kind: "AddressPool",
      metadata: { name: "big" },
      spec: { blockSizeBits: 5, subnets: [{ ipv4: "10.64.0.0/11" }] },
    },
  );
  using client = await KubeClient.load({ kubeconfig: plane.kubeconfig });
  const pool = poolOf(await client.get(ADDRESS_POOLS, { name: "big" }));
  const nodeOf = (index: number) => `big-${index % nodes}`;
  await storeObjects(plane, nodes, (index) => {
    const name = nodeOf(index);
    const metadata = { name, uid: crypto.randomUUID() };
    const node = { apiVersion: "v1", kind: "Node", metadata };
    return [`/registry/minions/${name}`, node];
  });
  const blocks = BLOCKS_EACH * nodes;
  await storeBlocks(plane, blocks, {
    pool,
    blockOf: (index) => ({
      index,
      node: nodeOf(index),
      nodeAddresses: "192.0.2.1",
    }),
  });
  const first = Address.parse("10.64.0.0");
  await storePods(plane, PODS_EACH * nodes, (index) => {
    // Two pods of each block.
    const offset = 32 * (index % blocks) + Math.floor(index / blocks);
    const address = first.offset(BigInt(offset)).toString();
    return { node: nodeOf(index % blocks), address };
  });
}

/** Runs the command once. @throws {Error} unless it read all and found that all is well */
async function check(
  executable: string,
  plane: ControlPlane,
): Promise<{ readonly elapsedS: number; readonly peakMiB: number }> {
  const started = performance.now();
  const child = new Deno.Command(executable, {
    args: ["ipam", "check", `--kubeconfig=${plane.kubeconfig}`],
    stdout: "piped",
    stderr: "inherit",
  }).spawn();
  let peakMiB = 0;
  let isOver = false;
  const output = child.output().finally(() => isOver = true);
  while (!isOver) {
    try {
      // It is without a program for a moment, and gone at the end.
      peakMiB = Math.max(peakMiB, peakOf(child.pid) || 0);
    } catch (error) {
      if (!(error instanceof Deno.errors.NotFound)) throw error;
    }
    await Promise.race([output, sleep(LOOK_MS)]);
  }
  const elapsedS = (performance.now() - started) / 1000;
  const { code, stdout } = await output;
  const text = new TextDecoder().decode(stdout);
  if (code !== 0 || text !== "No problems found\n") {
    throw new Error(
      `coil ipam check ended with ${code}: ${text.slice(0, 500)}`,
    );
  }
  return { elapsedS, peakMiB };
}
