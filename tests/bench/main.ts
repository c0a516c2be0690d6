// `deno task bench`: what ADD and DEL take, beside a peer in the same run.
import { parseArgs } from "node:util";
import { refuseTask } from "../../lib/flags/mod.ts";
import * as path from "node:path";
import { buildExecutable } from "../../deploy/executable/mod.ts";
import { CoilCluster } from "../lab/coil.ts";
import { type LabNode, removeLabOnSignals, sleep } from "../lab/mod.ts";
import {
  BUILD_PACKAGES,
  CONTROL_PLANE_PACKAGES,
  preparePackages,
} from "../lab/packages.ts";
import { checkFigures } from "./check.ts";
import { coordinatorFigures } from "./coordinator.ts";
import { handlingTimes } from "./daemon_log.ts";
import { EGRESS_PACKAGES, EGRESS_PARTS, egressFigures } from "./egress/mod.ts";
import { makeEmptyProgram } from "./empty_program.ts";
import { asTable, type Figure, figure } from "./figures.ts";
import { ipamFigures } from "./ipam.ts";
import { heardFigures, NotificationListener } from "./notifications.ts";
import { PEER_PACKAGES, peerNetwork } from "./peer.ts";
import { pluginTimes } from "./plugin.ts";
import { oneByOne, type PodBench, waves } from "./pods.ts";
import { addFromNewPools, memoryFigures, overLimit } from "./memory.ts";
import { missingNames, WITH_PODS } from "./names.ts";
import { memoryOf } from "./process_memory.ts";
import { requestFigures } from "./requests.ts";
import { BenchRun, type Measure } from "./run.ts";
import { SCALE_PARTS, scaleFigures } from "./scale/mod.ts";
import { vpcFigures } from "./vpc/mod.ts";
import { createPodsElsewhere } from "./scale/objects.ts";

const NAME = "bench";
const INNER_PARTS = [
  ...EGRESS_PARTS.map((part) => `egress.${part}`),
  ...SCALE_PARTS.map((part) => `scale.${part}`),
];
const USAGE = `usage: deno task bench [--json FILE] [--quick] [--only PART,...]

  --json FILE   also write the figures as JSON
  --quick       fewer rounds, a tenth of the cluster's size
  --only PARTS  some of: plugin, memory, pods, waves, scale, requests, egress,
                coordinator, ipam, vpc, check;
                of egress and scale alone:
                ${INNER_PARTS.join(", ")}`;
/** After a wave, until coild has collected its garbage. */
const SETTLE_MS = 3_000;
const CLUSTER_PARTS = ["memory", "pods", "waves", "scale"];
const PARTS = [
  "plugin",
  ...CLUSTER_PARTS,
  "requests",
  "egress",
  "coordinator",
  "ipam",
  "vpc",
  "check",
];

const encoder = new TextEncoder();
function say(text: string): void {
  Deno.stderr.writeSync(encoder.encode(`${text}\n`));
}

function options() {
  try {
    const { values } = parseArgs({
      args: Deno.args,
      options: {
        json: { type: "string" },
        quick: { type: "boolean", default: false },
        only: { type: "string", default: PARTS.join(",") },
        help: { type: "boolean", short: "h", default: false },
      },
    });
    if (values.help) {
      say(USAGE);
      Deno.exit(0);
    }
    const parts = values.only.split(",");
    const known = [...PARTS, ...INNER_PARTS];
    const unknown = parts.find((part) => !known.includes(part));
    if (unknown !== undefined) {
      throw new TypeError(`There is no part "${unknown}"`);
    }
    return { ...values, parts };
  } catch (error) {
    refuseTask("bench", error);
  }
}

function pool(name: string, blockSizeBits: number, subnet: object): object {
  return {
    apiVersion: "coil.cybozu.com/v2",
    kind: "AddressPool",
    metadata: { name },
    spec: { blockSizeBits, subnets: [subnet] },
  };
}

function namespace(name: string, poolName: string): object {
  return {
    apiVersion: "v1",
    kind: "Namespace",
    metadata: { name, annotations: { "coil.cybozu.com/pool": poolName } },
  };
}

async function prepareObjects(cluster: CoilCluster): Promise<void> {
  await cluster.plane.apply(
    pool("four", 5, { ipv4: "10.128.0.0/16" }),
    pool("dual", 5, { ipv4: "10.129.0.0/16", ipv6: "fd10:129::/112" }),
    pool("big", 5, { ipv4: "10.0.0.0/8" }),
    namespace("four", "four"),
    namespace("dual", "dual"),
    namespace("wave", "four"),
  );
}

function benches(cluster: CoilCluster, node: LabNode) {
  const dataDir = path.join(cluster.plane.runDir, "host-local");
  const ipv4: PodBench = {
    cluster,
    node,
    namespace: "four",
    label: "ipv4",
    peer: peerNetwork("peer4", { subnets: ["10.130.0.0/16"], dataDir }),
  };
  const dual: PodBench = {
    cluster,
    node,
    namespace: "dual",
    label: "dual",
    peer: peerNetwork("peer46", {
      subnets: ["10.131.0.0/16", "fd10:131::/112"],
      dataDir,
    }),
  };
  return { ipv4, dual };
}

function rss(name: string, pid: number | undefined): Figure {
  if (pid === undefined) {
    throw new Error(`Cannot measure "${name}": no process`);
  }
  return figure(name, "MiB", [memoryOf(pid).residentMiB]);
}

/** First ADDs of pools on a node: each asks for a block. */
async function firstAdds(
  cluster: CoilCluster,
  node: LabNode,
  count: number,
): Promise<Figure> {
  const namespaces = await addFromNewPools(cluster, node, {
    prefix: "first",
    count,
    subnetOf: (n) => `10.141.${n}.0/24`,
  });
  const log = await cluster.daemonOf(node)?.logs() ?? "";
  const times = namespaces.flatMap((namespace) =>
    handlingTimes(log, { method: "Add", namespace })
  );
  return figure("daemon.add.first", "ms", times);
}

async function podFigures(
  cluster: CoilCluster,
  node: LabNode,
  quick: boolean,
): Promise<Figure[]> {
  const { ipv4, dual } = benches(cluster, node);
  const figures = [rss("rss.coild.idle", cluster.daemonOf(node)?.pid)];
  figures.push(await firstAdds(cluster, node, quick ? 3 : 20));
  say("one pod at a time, IPv4");
  const rounds = quick ? 20 : 100;
  figures.push(...await oneByOne(ipv4, { ours: rounds, peers: rounds }));
  say("one pod at a time, dual stack (ptp takes seconds for each)");
  figures.push(
    ...await oneByOne(dual, { ours: rounds, peers: quick ? 3 : 10 }),
  );
  const log = await cluster.daemonOf(node)?.logs() ?? "";
  for (const { label, namespace } of [ipv4, dual]) {
    for (const method of ["Add", "Del"]) {
      figures.push(figure(
        `daemon.${method.toLowerCase()}.${label}`,
        "ms",
        handlingTimes(log, { method, namespace }),
      ));
    }
  }
  return figures;
}

async function waveFigures(
  cluster: CoilCluster,
  node: LabNode,
  { suffix = "", rounds }: {
    readonly suffix?: string;
    readonly rounds: number;
  },
): Promise<Figure[]> {
  const { ipv4 } = benches(cluster, node);
  await using router = await cluster.startRouter(node);
  await sleep(SETTLE_MS);
  const pids: Record<typeof WITH_PODS[number], number | undefined> = {
    coild: cluster.daemonOf(node)?.pid,
    controller: cluster.controller?.pid,
    router: router.pid,
  };
  const idle = rss("rss.router.idle", router.pid);
  let memory: Figure[] = [];
  await using listener = await NotificationListener.start(node);
  const shares: number[] = [];
  let usedMs = 0;
  const figures = await waves({ ...ipv4, namespace: "wave" }, {
    size: 110,
    rounds,
    before: () => usedMs = listener.usedMs,
    between: async (addMs) => {
      const amid = rss(`rss.coild.110${suffix}.amid`, pids.coild);
      await sleep(SETTLE_MS);
      memory = WITH_PODS.map((role) =>
        rss(`rss.${role}.110${suffix}`, pids[role])
      );
      memory.push(amid);
      shares.push(100 * (listener.usedMs - usedMs) / addMs);
    },
  });
  const notifications = figure(`wave110.notifications${suffix}`, "%", shares, {
    target: "≤ 5",
  });
  return [idle, ...figures, notifications, ...memory];
}

/** Those of a part's own parts that are asked for. */
function partsOf<T extends string>(
  whole: string,
  inner: readonly T[],
  parts: readonly string[],
): T[] {
  return inner.filter((part) =>
    parts.includes(whole) || parts.includes(`${whole}.${part}`)
  );
}

/** Measures the parts that need a cluster, each by itself. */
async function inCluster(
  executable: string,
  { parts, quick, measure }: {
    readonly parts: readonly string[];
    readonly quick: boolean;
    readonly measure: Measure;
  },
): Promise<void> {
  await using cluster = await CoilCluster.start({
    name: NAME,
    executable,
    nodes: 1,
    log: say,
  });
  const [node] = cluster.nodes;
  if (node === undefined) throw new Error("Cannot measure without a node");
  await cluster.startController();
  await prepareObjects(cluster);
  await cluster.startCoild(node);
  await measure("idle", async () => [
    rss("rss.controller.idle", cluster.controller?.pid),
  ]);
  if (parts.includes("memory")) {
    say("22 pods that each need a block, and 1,000 requests");
    const size = { pairs: 22, requests: 1_000 };
    await measure("memory", () => memoryFigures(cluster, node, size));
  }
  if (parts.includes("pods")) {
    await measure("pods", () => podFigures(cluster, node, quick));
  }
  if (parts.includes("waves")) {
    say("110 pods at once");
    const rounds = quick ? 1 : 10;
    await measure("waves", () => waveFigures(cluster, node, { rounds }));
    say("110 pods at once, with and without the kernel's notifications");
    await measure("waves, heard", () => {
      const size = { size: 110, pairs: quick ? 1 : 10, settleMs: SETTLE_MS };
      return heardFigures({ cluster, node, namespace: "wave" }, size);
    });
    say("10,000 pods of other nodes");
    await measure("waves, crowded", async () => {
      await createPodsElsewhere(cluster.plane, quick ? 1_000 : 10_000);
      const size = { suffix: ".crowded", rounds: 1 };
      const crowded = await waveFigures(cluster, node, size);
      return crowded.filter((f) => f.name.includes(".crowded"));
    });
  }
  const scaleParts = partsOf("scale", SCALE_PARTS, parts);
  if (scaleParts.length > 0) {
    await measure(
      "scale",
      () => scaleFigures({ cluster, parts: scaleParts, quick, log: say }),
    );
  }
}

const { json, quick, parts } = options();
if (Deno.uid() !== 0) {
  say("The bench makes network namespaces: run it as root");
  Deno.exit(1);
}
removeLabOnSignals(NAME, say);
await preparePackages(
  {
    ...PEER_PACKAGES,
    ...EGRESS_PACKAGES,
    ...CONTROL_PLANE_PACKAGES,
    ...BUILD_PACKAGES,
  },
  say,
);
const executable = await buildExecutable({ log: say });
const run = new BenchRun({ json, log: say });
const measure: Measure = (name, figures) => run.measure(name, figures);
if (parts.includes("plugin")) {
  say("the plugin's own process");
  await measure("plugin", async () => {
    const dir = await Deno.makeTempDir();
    const empty = await makeEmptyProgram(dir);
    const coil = path.join(dir, "coil");
    await Deno.symlink(executable, coil);
    const times = await pluginTimes({ coil, empty, dir }, quick ? 20 : 100);
    await Deno.remove(dir, { recursive: true });
    return times;
  });
}
if (parts.some((part) => CLUSTER_PARTS.includes(part.split(".")[0] ?? ""))) {
  await measure("cluster", async () => {
    await inCluster(executable, { parts, quick, measure });
    return [];
  });
}
if (parts.includes("requests")) {
  const count = quick ? 100 : 1_000;
  await measure("requests", () => requestFigures({ count, log: say }));
}
for (const part of partsOf("egress", EGRESS_PARTS, parts)) {
  const bench = { executable, quick, parts: [part], log: say, labName: NAME };
  await measure(`egress.${part}`, () => egressFigures(bench));
}
if (parts.includes("coordinator")) {
  const bench = { executable, quick, log: say };
  await measure("coordinator", () => coordinatorFigures(bench));
}
if (parts.includes("ipam")) await measure("ipam", ipamFigures);
if (parts.includes("vpc")) {
  const bench = { executable, quick, log: say };
  await measure("vpc", () => vpcFigures(bench));
}
if (parts.includes("check")) {
  const bench = { executable, quick, log: say };
  await measure("check", () => checkFigures(bench));
}
Deno.stdout.writeSync(encoder.encode(`${asTable(run.figures)}\n`));
const isWhole = PARTS.every((part) => parts.includes(part));
const problems = [
  ...run.failures,
  ...overLimit(run.figures),
  ...isWhole ? missingNames(run.figures) : [],
];
for (const problem of problems) say(problem);
Deno.exit(problems.length > 0 ? 1 : 0);
