// What the watches of all nodes cost who writes.
import { type ControlPlane, sleep } from "../../lab/mod.ts";
import { PATTERNS, type WatchKind, watchUri } from "../../scale/patterns.ts";
import { type Figure, figure } from "../figures.ts";
import { memoryOf, processorSeconds } from "../process_memory.ts";
import { type BigNode, requestBlocks } from "./objects.ts";
import { RawWatches } from "./raw_watches.ts";

const FLOW_CONTROL =
  new URL("../../../deploy/policies/flow_control.yaml", import.meta.url)
    .pathname;
const REQUESTS = 300;
/** How often it is measured alone and beside the watches. */
const ROUNDS = 9;
const SETTLE_MS = 5_000;
/** How much longer requests may take for the watches of all nodes, in %. */
const TARGET = 130;

/**
 * 300 nodes ask for a block: alone and beside the watches of all nodes' coilds,
 * in turn; then beside only those watches that are in an index, and beside the
 * watches that coilds had before.
 */
export async function watchFigures(
  plane: ControlPlane,
  nodes: readonly BigNode[],
  log: (text: string) => void,
): Promise<Figure[]> {
  await plane.kubectl("apply", "-f", FLOW_CONTROL);
  const beside = (name: string, kinds: readonly WatchKind[]) =>
    requestsBeside(plane, { name, kinds, nodes, log });
  const { coild } = PATTERNS.now;
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
  const before = [await beside("before", PATTERNS.before.coild)];
  const alone = medianWholeMs(none);
  const ratios = (measured: readonly Measured[]) =>
    measured.map(({ wholeMs }) => 100 * wholeMs / alone);
  return [
    ...figuresOf("none", none),
    ...figuresOf("indexed", indexed),
    ...figuresOf("now", now),
    ...figuresOf("before", before),
    figure("watches.none.ratio", "%", ratios(none)),
    figure("watches.indexed.ratio", "%", ratios(indexed)),
    figure("watches.now.ratio", "%", ratios(now), { target: `≤ ${TARGET}` }),
    figure("watches.before.ratio", "%", ratios(before)),
  ];
}

/** What one measurement came to. */
interface Measured {
  readonly times: readonly number[];
  readonly wholeMs: number;
  readonly serverS: number;
  readonly memoryMiB: number;
}

function medianWholeMs(measured: readonly Measured[]): number {
  return figure("none", "ms", measured.map(({ wholeMs }) => wholeMs)).p50;
}

function figuresOf(name: string, measured: readonly Measured[]): Figure[] {
  const of = `watches.${name}`;
  return [
    figure(`${of}.request`, "ms", measured.flatMap(({ times }) => times)),
    figure(`${of}.all`, "ms", measured.map(({ wholeMs }) => wholeMs)),
    figure(`${of}.server`, "s", measured.map(({ serverS }) => serverS)),
    figure(`${of}.memory`, "MiB", measured.map(({ memoryMiB }) => memoryMiB)),
  ];
}

interface Beside {
  readonly name: string;
  /** Watches that each node has open. */
  readonly kinds: readonly WatchKind[];
  readonly nodes: readonly BigNode[];
  readonly log: (text: string) => void;
}

/** The first 300 nodes that have not asked yet ask for a block. */
async function requestsBeside(
  plane: ControlPlane,
  { name, kinds, nodes, log }: Beside,
): Promise<Measured> {
  const server = plane.apiServer?.pid;
  if (server === undefined) throw new Error("No API server runs");
  const uris = nodes.flatMap((node) =>
    kinds.map((kind) => watchUri(kind, node.name))
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
  const before = {
    cpu: processorSeconds(server),
    events: watches.events,
    bytes: watches.bytes,
  };
  const startMs = performance.now();
  const times = await requestBlocks(plane, nodes.slice(0, REQUESTS), { token });
  const wholeMs = performance.now() - startMs;
  const serverS = processorSeconds(server) - before.cpu;
  const events = watches.events - before.events;
  const bytes = watches.bytes - before.bytes;
  log(`${Math.round(wholeMs)} ms, ${events} events of ${bytes} bytes`);
  await plane.request("DELETE", "/apis/coil.cybozu.com/v2/blockrequests");
  const { residentMiB: memoryMiB } = memoryOf(server);
  return { times, wholeMs, serverS, memoryMiB };
}
