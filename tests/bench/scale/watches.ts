// What the watches of all nodes cost who writes.
import type { ControlPlane } from "../../lab/mod.ts";
import { PATTERNS, type WatchKind, watchUri } from "../../scale/patterns.ts";
import { type Figure, figure } from "../figures.ts";
import { memoryOf, processorSeconds } from "../process_memory.ts";
import { type BigNode, requestBlocks } from "./objects.ts";
import { RawWatches } from "./raw_watches.ts";

const FLOW_CONTROL =
  new URL("../../../deploy/policies/flow_control.yaml", import.meta.url)
    .pathname;
const REQUESTS = 300;
/** How much longer requests may take for the watches of all nodes, in %. */
const TARGET = 130;

/**
 * 300 nodes ask for a block: alone, and beside the watches of all nodes' coilds,
 * as they are and as they were; also beside only those of theirs that are in an
 * index, and those without a label.
 */
export async function watchFigures(
  plane: ControlPlane,
  nodes: readonly BigNode[],
  log: (text: string) => void,
): Promise<Figure[]> {
  await plane.kubectl("apply", "-f", FLOW_CONTROL);
  const beside = (
    name: string,
    kinds: readonly WatchKind[],
  ) => requestsBeside(plane, { name, kinds, nodes, log });
  // The first ones also pay for code that is not compiled yet.
  await beside("warm-up", []);
  const none = await beside("none", []);
  const { coild } = PATTERNS.now;
  const isIndexed = ({ by }: WatchKind) => by === "name" || by === "node";
  const indexed = await beside("indexed", coild.filter(isIndexed));
  const now = await beside("now", coild);
  const before = await beside("before", PATTERNS.before.coild);
  const ratio = (name: string, wholeMs: number) =>
    figure(`watches.${name}.ratio`, "%", [100 * wholeMs / none.wholeMs], {
      target: name === "now" ? `≤ ${TARGET}` : "",
    });
  return [
    ...[none, indexed, now, before].flatMap(({ figures }) => figures),
    ratio("indexed", indexed.wholeMs),
    ratio("now", now.wholeMs),
    ratio("before", before.wholeMs),
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
): Promise<{ readonly wholeMs: number; readonly figures: Figure[] }> {
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
  log(`${REQUESTS} requests`);
  const before = {
    cpu: processorSeconds(server),
    events: watches.events,
    bytes: watches.bytes,
  };
  const startMs = performance.now();
  const times = await requestBlocks(plane, nodes.slice(0, REQUESTS), { token });
  const wholeMs = performance.now() - startMs;
  const cpu = processorSeconds(server) - before.cpu;
  const events = watches.events - before.events;
  const bytes = watches.bytes - before.bytes;
  log(`${Math.round(wholeMs)} ms, ${events} events of ${bytes} bytes`);
  await plane.request("DELETE", "/apis/coil.cybozu.com/v2/blockrequests");
  return {
    wholeMs,
    figures: [
      figure(`watches.${name}.request`, "ms", times),
      figure(`watches.${name}.all`, "ms", [wholeMs]),
      figure(`watches.${name}.server`, "s", [cpu]),
      figure(`watches.${name}.memory`, "MiB", [memoryOf(server).residentMiB]),
    ],
  };
}
