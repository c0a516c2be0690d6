// What happens to a cluster, and what its API server counted.
import { Random } from "../faults/random.ts";
import { installClock, SimClock } from "./clock.ts";
import { Cluster } from "./cluster.ts";
import { REFUSED_EACH, type Simulated, type Totals } from "./simulated.ts";
import type { ClusterSize } from "./size.ts";
import { type Count, COUNTS, ModelServer } from "./model_server.ts";
import type { Pattern } from "./patterns.ts";
import { ProductCluster, type ProductParts } from "./product_cluster.ts";

const MINUTE_S = 60;
const DAY_S = 24 * 60 * MINUTE_S;
const LEAST_WARM_UP_MS = 2 * 3_600_000;
/** 500 starts in a second, where there are 30 otherwise. */
const RUSH = 500 / 30;
/** Processors of three API servers. */
const CORES = 24;

/** From the end of one coild to the readiness of the next. */
const WAVE_MS = 15_000;

/** Something that happens, after a while of rest. */
export interface Scenario {
  readonly name: string;
  readonly seconds: number;
  readonly begin: <N>(cluster: Simulated<N>, clock: SimClock) => void;
}

/** What was counted: in a second on average, and in the worst one. */
export interface Outcome {
  readonly name: string;
  readonly starts: number;
  readonly obtained: number;
  readonly givenBack: number;
  /** Requests for a block that were refused. */
  readonly refused: number;
  /** That nodes hold at its end. */
  readonly blocks: number;
  readonly watches: number;
  readonly mean: Readonly<Record<Count, number>>;
  readonly peak: Readonly<Record<Count, number>>;
  /** The longest time by which three servers of eight processors are behind. */
  readonly behindS: number;
}

function peak<N>(cluster: Simulated<N>, clock: SimClock, atS: number): void {
  clock.after(1000 * atS, () => cluster.rush = RUSH);
  clock.after(1000 * (atS + MINUTE_S), () => cluster.rush = 1);
}

/** A third of the nodes goes, its pods start elsewhere, 500 in a second; then it comes back within a minute. */
function loseZone<N>(cluster: Simulated<N>, clock: SimClock): void {
  clock.after(60_000, () => {
    const zone = cluster.nodes.filter((_, i) => i % 3 === 0);
    for (const node of zone) cluster.loseNode(node);
    cluster.rush = RUSH;
    // A third of the pods, at 500 of 150,000 in a second.
    clock.after(100_000, () => cluster.rush = 1);
    clock.after(600_000, () => {
      zone.forEach((node, i) => {
        clock.after(60_000 * i / zone.length, () => cluster.returnNode(node));
      });
    });
  });
}

/** A thousand nodes have each a pod of a pool without blocks, which kubelet tries again every 15 s. */
function useUpPool<N>(cluster: Simulated<N>, clock: SimClock): void {
  const waiting = cluster.nodes.filter((_, i) => i % REFUSED_EACH === 0);
  const retryMs = 15_000;
  waiting.forEach((node, i) => {
    clock.after(
      retryMs * i / waiting.length,
      () => cluster.startRefusing(node, retryMs),
    );
  });
}

/** A tenth of all pods is replaced within five minutes. */
function rollOutPods<N>(cluster: Simulated<N>, clock: SimClock): void {
  const replaced = cluster.pods / 10;
  for (let i = 0; i < replaced; i++) {
    clock.after(60_000 + 300_000 * i / replaced, () => cluster.replacePod());
  }
}

/** The share of nodes whose daemons are replaced at a time, in %: `maxUnavailable` of the manifests. */
export const REPLACED_TOGETHER = 2;

/** Each node's coild is replaced, some at a time: one wave after the other. */
function rollOutCoild<N>(cluster: Simulated<N>, clock: SimClock): void {
  const together = Math.ceil(cluster.nodes.length * REPLACED_TOGETHER / 100);
  cluster.nodes.forEach((node, i) => {
    const wave = Math.floor(i / together);
    clock.after(60_000 + WAVE_MS * wave, () => cluster.replaceCoild(node));
  });
}

export const SCENARIOS: readonly Scenario[] = [
  { name: "30 starts/s", seconds: 10 * MINUTE_S, begin() {} },
  {
    name: "500 starts/s for a minute",
    seconds: 5 * MINUTE_S,
    begin: (cluster, clock) => peak(cluster, clock, MINUTE_S),
  },
  {
    name: "a zone lost and back",
    seconds: 20 * MINUTE_S,
    begin: loseZone,
  },
  {
    name: "API servers away for 10 s",
    seconds: 5 * MINUTE_S,
    begin: (cluster, clock) =>
      clock.after(60_000, () => cluster.restartServer(10_000)),
  },
  {
    name: "500 nodes join in a minute",
    seconds: 5 * MINUTE_S,
    begin(cluster, clock) {
      const joining = cluster.nodes.length / 10;
      for (let i = 0; i < joining; i++) {
        clock.after(60_000 * (1 + i / joining), () => cluster.addNodes(1));
      }
    },
  },
  { name: "a pool used up", seconds: 10 * MINUTE_S, begin: useUpPool },
  {
    name: "rollout of 15,000 pods",
    seconds: 10 * MINUTE_S,
    begin: rollOutPods,
  },
  {
    name: "rollout of coild, 2 % at a time",
    seconds: 15 * MINUTE_S,
    begin: rollOutCoild,
  },
  {
    name: "controller fails over",
    seconds: 5 * MINUTE_S,
    begin: (cluster, clock) => clock.after(60_000, () => cluster.failOver()),
  },
  {
    name: "a day with three peaks",
    seconds: DAY_S,
    begin(cluster, clock) {
      for (const hour of [8, 12, 20]) peak(cluster, clock, hour * 3600);
    },
  },
];

/** Until as many blocks are kept as are given back. */
export function warmUpOf({ giveBack: { ampleMs } }: Pattern): number {
  return Math.max(LEAST_WARM_UP_MS, 2 * ampleMs);
}

/** Runs one of them by the table. The same seed gives the same counts. */
export function runScenario(
  scenario: Scenario,
  { size, pattern, seed }: {
    readonly size: ClusterSize;
    readonly pattern: Pattern;
    readonly seed: number;
  },
): Outcome {
  const clock = new SimClock();
  const server = new ModelServer(scenario.seconds);
  const random = new Random(seed);
  const cluster = new Cluster({ size, pattern, clock, server, random });
  const warmUpMs = warmUpOf(pattern);
  clock.runUntil(warmUpMs);
  const outcome = begin(scenario, { cluster, clock, server });
  clock.runUntil(warmUpMs + 1000 * scenario.seconds);
  return outcome();
}

/** The same with the product's own code on each node, as {@linkcode ProductCluster} has it. */
export async function runProduct(
  scenario: Scenario,
  { seed, warmUpMs, onRequest, onEnd, ...options }:
    & Pick<ProductParts, "size" | "flags" | "hasLeases">
    & {
      readonly seed: number;
      readonly warmUpMs: number;
      readonly onEnd?: (cluster: ProductCluster) => void;
    }
    /** Called with each request after that. */
    & Pick<ProductParts, "onRequest">,
): Promise<Outcome> {
  const clock = new SimClock();
  const server = new ModelServer(scenario.seconds);
  const random = new Random(seed);
  using _time = installClock(clock, new Random(seed + 1));
  using cluster = new ProductCluster({
    ...options,
    clock,
    server,
    random,
    onRequest(request, role) {
      if (clock.nowMs >= warmUpMs) onRequest?.(request, role);
    },
  });
  await clock.turnUntil(warmUpMs);
  const outcome = begin(scenario, { cluster, clock, server });
  await clock.turnUntil(warmUpMs + 1000 * scenario.seconds);
  onEnd?.(cluster);
  return outcome();
}

/** Begins to count; returns what gives the counts. */
function begin<N>(
  { name, seconds, begin }: Scenario,
  { cluster, clock, server }: {
    readonly cluster: Simulated<N>;
    readonly clock: SimClock;
    readonly server: ModelServer;
  },
): () => Outcome {
  server.begin(clock.nowMs);
  const before = { ...cluster.totals };
  begin(cluster, clock);
  const since = (key: keyof Totals) => cluster.totals[key] - before[key];
  const each = (pick: (counts: Float64Array) => number) =>
    Object.fromEntries(
      COUNTS.map((count) => [count, pick(server.counts(count))]),
    ) as Record<Count, number>;
  return () => ({
    name,
    starts: since("starts"),
    obtained: since("obtained"),
    givenBack: since("givenBack"),
    refused: since("refused"),
    blocks: cluster.blocks,
    watches: server.watches,
    mean: each((counts) => counts.reduce((a, b) => a + b, 0) / seconds),
    peak: each((counts) => counts.reduce((a, b) => Math.max(a, b), 0)),
    behindS: behindS(server.counts("busyMs")),
  });
}

/** How far work that comes in these seconds, in milliseconds of a processor, is behind at the worst. */
export function behindS(busyMs: Float64Array): number {
  let backlogMs = 0;
  let most = 0;
  for (const ms of busyMs) {
    backlogMs = Math.max(0, backlogMs + ms - CORES * 1000);
    most = Math.max(most, backlogMs);
  }
  return most / 1000 / CORES;
}
