// What the daemons hold: after pods that each need a block, and after a burst
// of requests for blocks.
import type { CoilCluster } from "../lab/coil.ts";
import { type LabNode, sleep } from "../lab/mod.ts";
import { type Figure, figure } from "./figures.ts";
import { memoryOf, peakOf, resetPeak } from "./process_memory.ts";
import { createNodes, requestBlocks } from "./scale/objects.ts";

/** Until all is at rest and garbage has been collected. */
const SETTLE_MS = 8_000;

/** How much a figure may be, in MiB. */
export const LIMITS: Readonly<Record<string, number>> = {
  "rss.coild.blocks22": 75,
  "rss.controller.start": 75,
  "rss.controller.blocks22": 75,
  "rss.controller.requests1000.peak": 110,
  "rss.controller.requests1000": 75,
};

/** `pairs` ADDs and DELs, each of a pool of its own, so that each needs a block; then many requests at once. */
export async function memoryFigures(
  cluster: CoilCluster,
  node: LabNode,
  options: { readonly pairs: number; readonly requests: number },
): Promise<Figure[]> {
  const coild = cluster.daemonOf(node)?.pid;
  const controller = cluster.controller?.pid;
  if (coild === undefined || controller === undefined) {
    throw new Error("Cannot measure memory: a daemon does not run");
  }
  const held = (name: string, pid: number) =>
    limited(name, memoryOf(pid).residentMiB);
  await sleep(SETTLE_MS);
  const figures = [
    held("rss.coild.start", coild),
    held("rss.controller.start", controller),
  ];
  await addFromNewPools(cluster, node, {
    prefix: "memory",
    count: options.pairs,
    subnetOf: (n) => `10.140.${n}.0/24`,
  });
  await sleep(SETTLE_MS);
  figures.push(held("rss.coild.blocks22", coild));
  figures.push(held("rss.controller.blocks22", controller));
  const nodes = await createNodes(cluster.plane, options.requests);
  await sleep(SETTLE_MS);
  resetPeak(controller);
  const times = await requestBlocks(cluster.plane, nodes);
  const name = "rss.controller.requests1000";
  figures.push(limited(`${name}.peak`, peakOf(controller)));
  await sleep(SETTLE_MS);
  figures.push(held(name, controller));
  figures.push(figure("blockrequest.1000", "ms", times));
  return figures;
}

/** One pod after the other, added and deleted, each out of a pool of its own; returns their namespaces. */
export async function addFromNewPools(
  cluster: CoilCluster,
  node: LabNode,
  { prefix, count, subnetOf }: {
    readonly prefix: string;
    readonly count: number;
    readonly subnetOf: (n: number) => string;
  },
): Promise<string[]> {
  const names = Array.from({ length: count }, (_, n) => `${prefix}-${n}`);
  for (const [n, name] of names.entries()) {
    await cluster.plane.apply({
      apiVersion: "coil.cybozu.com/v2",
      kind: "AddressPool",
      metadata: { name },
      spec: { blockSizeBits: 5, subnets: [{ ipv4: subnetOf(n) }] },
    }, {
      apiVersion: "v1",
      kind: "Namespace",
      metadata: { name, annotations: { "coil.cybozu.com/pool": name } },
    });
    const sandbox = await cluster.createSandbox(node, {
      namespace: name,
      name,
    });
    await cluster.add(node, sandbox);
    await cluster.del(node, sandbox);
    await cluster.removeSandbox(sandbox);
  }
  return names;
}

function limited(name: string, residentMiB: number): Figure {
  const limit = LIMITS[name];
  const target = limit === undefined ? {} : { target: `≤ ${limit}` };
  return figure(name, "MiB", [residentMiB], target);
}

/** What is more than it may be, in words. */
export function overLimit(figures: readonly Figure[]): string[] {
  return figures.flatMap(({ name, max, unit }) => {
    const limit = LIMITS[name];
    if (limit === undefined || max <= limit) return [];
    return [`${name} is ${max} ${unit}, more than ${limit}`];
  });
}
