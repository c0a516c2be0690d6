// What the watches of all nodes cost who writes, and a program that has to do with neither.
import type { CoilCluster } from "../../lab/coil.ts";
import { sleep } from "../../lab/mod.ts";
import { PATTERNS, type WatchKind, watchUri } from "../../scale/patterns.ts";
import { LARGE, namespacesOfNode } from "../../scale/size.ts";
import { type Figure, figure } from "../figures.ts";
import {
  memoryOf,
  pidsOf,
  processorSecondsOf,
  processorSecondsSince,
} from "../process_memory.ts";
import { Bystander } from "./bystander.ts";
import { type BigNode, requestBlocks } from "./objects.ts";
import { RawWatches } from "./raw_watches.ts";
import { type Labels, ServerCounts } from "./server_counts.ts";
import { type Asked, askedIn, isSuccess, type Window } from "./waits.ts";

const FLOW_CONTROL =
  new URL("../../../deploy/policies/flow_control.yaml", import.meta.url)
    .pathname;
const REQUESTS = 300;
/** How often it is measured alone and beside the watches. */
const ROUNDS = 9;
const SETTLE_MS = 5_000;
/** How much longer requests may take for the watches of all nodes, in %. */
const TARGET = 130;

const COIL_LEVELS = { priority_level: /^coil-/ };
const SEATS = "apiserver_flowcontrol_work_estimated_seats";
const STATUS_WRITE = {
  resource: /^addresspools$/,
  subresource: /^status$/,
  verb: /^(PUT|PATCH|APPLY)$/,
};
/** What the API server counts while the nodes ask: name of the figure, unit, metric and labels. */
const COUNTED: readonly (readonly [string, Figure["unit"], string, Labels])[] =
  [
    // 1 for a request, up to 10 for a write with many watchers.
    ["seats", "seats", `${SEATS}_sum`, COIL_LEVELS],
    ["requests", "requests", `${SEATS}_count`, COIL_LEVELS],
    [
      "queued",
      "s",
      "apiserver_flowcontrol_request_wait_duration_seconds_sum",
      COIL_LEVELS,
    ],
    ["statuses", "requests", "apiserver_request_total", STATUS_WRITE],
    ["events", "events", "apiserver_watch_events_total", {}],
  ];

/**
 * 300 nodes ask for a block: alone and beside the watches of all nodes' coilds,
 * in turn; then beside only those watches that are in an index, beside those that
 * coilds have where clients of Egresses are on all nodes, and beside the watches
 * that coilds had before. All the time another program of kube-system asks, too.
 */
export async function watchFigures(
  cluster: CoilCluster,
  nodes: readonly BigNode[],
  log: (text: string) => void,
): Promise<Figure[]> {
  await cluster.plane.kubectl("apply", "-f", FLOW_CONTROL);
  const { rounds, asked } = await measureAll(cluster, nodes, log);
  const percent = (of: (one: Measured) => number) => {
    const alone = figure("none", "ms", rounds.none.map(of)).p50;
    return (one: Measured) => 100 * of(one) / alone;
  };
  const ratios = (measured: readonly Measured[]) =>
    measured.map(percent(({ wholeMs }) => wholeMs));
  // Other load changes it less than the time, and what the watches cost this program is not in it.
  const works = (measured: readonly Measured[]) =>
    measured.map(
      percent(({ busyS: { bench: _, ...busyS } }) =>
        Object.values(busyS).reduce((sum, s) => sum + s, 0)
      ),
    );
  const target = { target: `≤ ${TARGET}` };
  return [
    ...Object.entries(rounds).flatMap(([name, measured]) => [
      ...figuresOf(name, measured),
      ...bystanderFigures(name, measured, asked),
      figure(
        `watches.${name}.ratio`,
        "%",
        ratios(measured),
        name === "now" ? target : {},
      ),
    ]),
    figure("watches.none.work", "%", works(rounds.none)),
    figure("watches.now.work", "%", works(rounds.now)),
  ];
}

/** By which watches there are beside; and what the other program asked. */
async function measureAll(
  cluster: CoilCluster,
  nodes: readonly BigNode[],
  log: (text: string) => void,
) {
  await using bystander = await Bystander.start(cluster.plane);
  const beside = (name: string, kinds: readonly WatchKind[]) =>
    requestsBeside(cluster, { name, kinds, nodes, log });
  const { coild, egress } = PATTERNS.now;
  // The first ones also pay for code that is not compiled yet.
  await beside("warm-up", []);
  const none: Measured[] = [];
  const now: Measured[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    // Each is first as often: blocks grow more, and the machine's load changes.
    const turns = [
      async () => none.push(await beside("none", [])),
      async () => now.push(await beside("now", coild)),
    ];
    for (const turn of round % 2 === 0 ? turns : turns.toReversed()) {
      await turn();
    }
  }
  const isIndexed = ({ by }: WatchKind) => by === "name" || by === "node";
  const indexed = [await beside("indexed", coild.filter(isIndexed))];
  const namespaces = Math.round(namespacesOfNode(LARGE));
  const followed = Array.from({ length: namespaces }, () => egress).flat();
  const clients = [await beside("clients", [...coild, ...followed])];
  const before = [await beside("before", PATTERNS.before.coild)];
  // What was asked last is answered when the bystander is disposed of.
  return {
    rounds: { none, indexed, now, clients, before },
    asked: bystander.asked,
  };
}

/** What one measurement came to. */
interface Measured extends Window {
  readonly times: readonly number[];
  readonly wholeMs: number;
  /** Processor time by program, in seconds. */
  readonly busyS: Readonly<Record<string, number>>;
  /** See {@linkcode COUNTED}. */
  readonly counted: readonly number[];
  readonly memoryMiB: number;
}

function figuresOf(name: string, measured: readonly Measured[]): Figure[] {
  const each = (
    what: string,
    unit: Figure["unit"],
    valueOf: (one: Measured) => number,
  ) => figure(`watches.${name}.${what}`, unit, measured.map(valueOf));
  const times = measured.flatMap((one) => one.times);
  return [
    figure(`watches.${name}.request`, "ms", times),
    each("all", "ms", ({ wholeMs }) => wholeMs),
    ...Object.keys(measured[0]?.busyS ?? {}).map((program) =>
      each(program, "s", ({ busyS }) => busyS[program] ?? NaN)
    ),
    ...COUNTED.map(([what, unit], i) =>
      each(what, unit, ({ counted }) => counted[i] ?? NaN)
    ),
    each("memory", "MiB", ({ memoryMiB }) => memoryMiB),
  ];
}

/** What the other program waited while nodes asked for blocks. */
function bystanderFigures(
  name: string,
  measured: readonly Measured[],
  all: readonly Asked[],
): Figure[] {
  const asked = measured.flatMap((window) => askedIn(all, window));
  const of = `watches.${name}.bystander`;
  return [
    ...(["get", "renew"] as const).map((what) =>
      figure(
        `${of}.${what}`,
        "ms",
        asked.filter((a) => a.what === what).map(({ ms }) => ms),
      )
    ),
    figure(`${of}.failed`, "requests", [
      asked.filter((a) => !isSuccess(a)).length,
    ]),
  ];
}

interface Beside {
  readonly name: string;
  /** Watches that each node has open. */
  readonly kinds: readonly WatchKind[];
  readonly nodes: readonly BigNode[];
  readonly log: (text: string) => void;
}

/** The first 300 nodes ask for a block. */
async function requestsBeside(
  cluster: CoilCluster,
  { name, kinds, nodes, log }: Beside,
): Promise<Measured> {
  const { plane } = cluster;
  const pids = pidsOf(cluster);
  const uris = nodes.flatMap(({ name: node }, i) =>
    kinds.map((kind, n) => {
      const namespace = `egress-${(i + n) % LARGE.egressNamespaces}`;
      return watchUri(kind, { node, namespace });
    })
  );
  log(`${uris.length} watches: ${name}`);
  using watches = await RawWatches.open(plane, uris, log);
  const token = await plane.serviceAccountToken({
    namespace: "kube-system",
    name: "coild",
  });
  // Until the server has forgotten those of the measurement before.
  await sleep(SETTLE_MS);
  log(`${REQUESTS} requests`);
  const countsBefore = await ServerCounts.read(plane);
  const bytesBefore = watches.bytes;
  const busyBefore = processorSecondsOf(pids);
  const fromMs = Date.now();
  const startMs = performance.now();
  const times = await requestBlocks(plane, nodes.slice(0, REQUESTS), { token });
  const wholeMs = performance.now() - startMs;
  const toMs = Date.now();
  const busyS = processorSecondsSince(pids, busyBefore);
  const bytes = watches.bytes - bytesBefore;
  const counts = await ServerCounts.read(plane);
  const counted = COUNTED.map(([, , metric, labels]) =>
    counts.sum(metric, labels) - countsBefore.sum(metric, labels)
  );
  log(`${Math.round(wholeMs)} ms, ${bytes} bytes of events`);
  await plane.request("DELETE", "/apis/coil.cybozu.com/v2/blockrequests");
  const { residentMiB: memoryMiB } = memoryOf(pids.server);
  return { fromMs, toMs, times, wholeMs, busyS, counted, memoryMiB };
}
