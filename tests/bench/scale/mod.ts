/**
 * A cluster of 5,000 nodes on the real API server: its objects, and its
 * daemons' watches as raw connections.
 *
 * @module
 */
import type { CoilCluster } from "../../lab/coil.ts";
import { sleep } from "../../lab/mod.ts";
import { MACHINE_HOST } from "../../lab/network.ts";
import { asTable, type Figure, figure } from "../figures.ts";
import {
  memoryOf,
  pidsOf,
  processorSecondsOf,
  processorSecondsSince,
} from "../process_memory.ts";
import {
  type BigNode,
  createBlocks,
  createNodes,
  requestBlocks,
} from "./objects.ts";
import { controllerFigures } from "./controller.ts";
import { listFigures, routerFigures } from "./grown.ts";
import { restartFigures } from "./restart.ts";
import { ServerCounts } from "./server_counts.ts";
import { watchFigures } from "./watches.ts";

/** The parts that can be asked for, in the order in which the cluster grows. */
export const SCALE_PARTS = [
  "watches",
  "restart",
  "blocks",
  "list",
  "router",
  "controller",
] as const;
export type ScalePart = typeof SCALE_PARTS[number];

export interface ScaleBench {
  readonly cluster: CoilCluster;
  readonly parts: readonly ScalePart[];
  readonly quick: boolean;
  readonly log: (text: string) => void;
}

const SETTLE_MS = 5_000;
const BLOCKS_EACH = 10;
/** Whose coilds watch as they are, in `restart`. */
const WATCHING_NODES = 500;
/** What can be measured without blocks. */
const BEFORE_BLOCKS: readonly ScalePart[] = ["watches", "restart"];

/** Measures the parts that are asked for, and shows each as soon as it is known. */
export async function scaleFigures(bench: ScaleBench): Promise<Figure[]> {
  const { cluster, parts, quick, log } = bench;
  const { plane } = cluster;
  const count = quick ? 500 : 5_000;
  log(`${count} nodes`);
  const address = plane.subnet.address("ipv4", MACHINE_HOST);
  const nodes = await createNodes(plane, count, { address });
  const measures: Record<ScalePart, () => Promise<Figure[]>> = {
    watches: () => watchFigures(cluster, nodes, log),
    restart: () =>
      restartFigures({
        cluster,
        nodes: nodes.slice(0, quick ? WATCHING_NODES / 5 : WATCHING_NODES),
        log,
      }),
    blocks: () => blocks(bench, nodes),
    list: () => listFigures(plane),
    router: () =>
      routerFigures(cluster, { blocks: BLOCKS_EACH * count, address }),
    controller: () => controllerFigures(cluster, { nodes: count }),
  };
  const asked = parts.includes("blocks") ? 1 : 0;
  const figures: Figure[] = [];
  let isGrown = false;
  for (const part of parts) {
    if (!BEFORE_BLOCKS.includes(part) && !isGrown) {
      isGrown = true;
      const perNode = BLOCKS_EACH - asked;
      log(`${perNode} blocks for each of ${count} nodes`);
      await createBlocks(plane, { nodes: count, perNode, address });
    }
    log(`scale.${part}`);
    const measured = await measures[part]();
    log(asTable(measured));
    figures.push(...measured);
  }
  return figures;
}

/** All nodes ask for their last block at once. How much work that is depends less on the machine's load than how long it takes. */
async function blocks(
  { cluster, log }: ScaleBench,
  nodes: readonly BigNode[],
): Promise<Figure[]> {
  const { plane } = cluster;
  const pids = pidsOf(cluster);
  log(`${nodes.length} nodes ask for a block at once`);
  const { writes: before } = await ServerCounts.read(plane);
  const busyBefore = processorSecondsOf(pids);
  const times = await requestBlocks(plane, nodes);
  const busyS = processorSecondsSince(pids, busyBefore);
  const { writes } = await ServerCounts.read(plane);
  await sleep(SETTLE_MS);
  const { residentMiB } = memoryOf(pids.controller);
  const each = (writes.all - before.all) / nodes.length;
  const refused = writes.refused - before.refused;
  return [
    figure("blockrequest.5000", "ms", times),
    figure("blockrequest.5000.writes", "requests", [each]),
    figure("blockrequest.5000.refused", "requests", [refused]),
    ...Object.entries(busyS).map(([program, seconds]) =>
      figure(`blockrequest.5000.processor.${program}`, "s", [seconds])
    ),
    figure("rss.controller.50k", "MiB", [residentMiB]),
  ];
}
