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
import { coordinatorFigures } from "./coordinator.ts";
import { handlingTimes } from "./daemon_log.ts";
import { EGRESS_PACKAGES, EGRESS_PARTS, egressFigures } from "./egress/mod.ts";
import { makeEmptyProgram } from "./empty_program.ts";
import { asTable, type Figure, figure } from "./figures.ts";
import { ipamFigures } from "./ipam.ts";
import { PEER_PACKAGES, peerNetwork } from "./peer.ts";
import { pluginTimes } from "./plugin.ts";
import { oneByOne, type PodBench, waves } from "./pods.ts";
import { addFromNewPools, memoryFigures, overLimit } from "./memory.ts";
import { missingNames, WITH_PODS } from "./names.ts";
import { memoryOf } from "./process_memory.ts";
import { requestFigures } from "./requests.ts";
import { SCALE_PARTS, scaleFigures } from "./scale/mod.ts";
import { vpcFigures } from "./vpc.ts";
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
                coordinator, ipam, vpc;
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
  const figures = await waves({ ...ipv4, namespace: "wave" }, {
    size: 110,
    rounds,
    between: async () => {
      const amid = rss(`rss.coild.110${suffix}.amid`, pids.coild);
      await sleep(SETTLE_MS);
      memory = WITH_PODS.map((role) =>
        rss(`rss.${role}.110${suffix}`, pids[role])
      );
      memory.push(amid);
    },
  });
  return [idle, ...figures, ...memory];
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

async function clusterFigures(
  executable: string,
  { parts, quick }: { parts: readonly string[]; quick: boolean },
): Promise<Figure[]> {
  const figures: Figure[] = [];
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
  figures.push(rss("rss.controller.idle", cluster.controller?.pid));
  if (parts.includes("memory")) {
    say("22 pods that each need a block, and 1,000 requests");
    figures.push(
      ...await memoryFigures(cluster, node, { pairs: 22, requests: 1_000 }),
    );
  }
  if (parts.includes("pods")) {
    figures.push(...await podFigures(cluster, node, quick));
  }
  if (parts.includes("waves")) {
    say("110 pods at once");
    const rounds = quick ? 1 : 10;
    figures.push(...await waveFigures(cluster, node, { rounds }));
    say("10,000 pods of other nodes");
    await createPodsElsewhere(cluster.plane, quick ? 1_000 : 10_000);
    const crowded = await waveFigures(cluster, node, {
      suffix: ".crowded",
      rounds: 1,
    });
    figures.push(...crowded.filter((f) => f.name.includes(".crowded")));
  }
  const scaleParts = partsOf("scale", SCALE_PARTS, parts);
  if (scaleParts.length > 0) {
    figures.push(
      ...await scaleFigures({ cluster, parts: scaleParts, quick, log: say }),
    );
  }
  return figures;
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
const figures: Figure[] = [];
if (parts.includes("plugin")) {
  say("the plugin's own process");
  const dir = await Deno.makeTempDir();
  const empty = await makeEmptyProgram(dir);
  const coil = path.join(dir, "coil");
  await Deno.symlink(executable, coil);
  figures.push(...await pluginTimes({ coil, empty, dir }, quick ? 20 : 100));
  await Deno.remove(dir, { recursive: true });
}
if (parts.some((part) => CLUSTER_PARTS.includes(part.split(".")[0] ?? ""))) {
  figures.push(...await clusterFigures(executable, { parts, quick }));
}
if (parts.includes("requests")) {
  figures.push(
    ...await requestFigures({ count: quick ? 100 : 1_000, log: say }),
  );
}
const egressParts = partsOf("egress", EGRESS_PARTS, parts);
if (egressParts.length > 0) {
  figures.push(
    ...await egressFigures({
      executable,
      quick,
      parts: egressParts,
      log: say,
      labName: NAME,
    }),
  );
}
if (parts.includes("coordinator")) {
  figures.push(...await coordinatorFigures({ executable, quick, log: say }));
}
if (parts.includes("ipam")) figures.push(...await ipamFigures());
if (parts.includes("vpc")) {
  figures.push(...await vpcFigures({ executable, quick, log: say }));
}
Deno.stdout.writeSync(encoder.encode(`${asTable(figures)}\n`));
if (json !== undefined) {
  await Deno.writeTextFile(json, `${JSON.stringify(figures, null, 2)}\n`);
}
const isWhole = PARTS.every((part) => parts.includes(part));
const problems = [
  ...overLimit(figures),
  ...isWhole ? missingNames(figures) : [],
];
for (const problem of problems) say(problem);
Deno.exit(problems.length > 0 ? 1 : 0);
