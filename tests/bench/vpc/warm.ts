// One pod at a time, with addresses in store: with pools, with addresses of the
// VPC, and by upstream's plugin; then 110 pods on a node.
import { peerVpcCniConfig, VpcAgentStub } from "../../lab/peer_vpc_cni.ts";
import { type LabNode, run, sleep } from "../../lab/mod.ts";
import { callPlugin, type Sandbox, sandboxOf } from "../../lab/runtime.ts";
import { handlingTimes } from "../daemon_log.ts";
import { type Figure, figure } from "../figures.ts";
import { memoryOf } from "../process_memory.ts";
import { addPod, requestsIn, type VpcBench } from "./site.ts";

/** Until garbage is collected and pages of the executable are given back: ten seconds after the last call. */
const REST_MS = 15_000;
/** One each second: a look at the metadata, each 30 s, needs pages for some seconds. */
const MEMORY_SAMPLES = 60;
const PODS = 110;
const SIDES = ["pools", "vpc"] as const;

type Side = typeof SIDES[number] | "upstream";

/** `vpc.add.*`, `vpc.del.*`, their parts in coild, `vpc.warm.*` and `vpc.rss.*`. */
export async function warmFigures(
  bench: VpcBench,
  { upstream, rounds }: {
    /** Its plugin. */
    readonly upstream: string;
    readonly rounds: number;
  },
): Promise<Figure[]> {
  const idle = await memory(bench, "idle");
  bench.log("one pod at a time");
  const { figures, requests } = await oneByOne(bench, { upstream, rounds });
  bench.log(`${PODS} pods on each node`);
  for (const side of SIDES) {
    for (let n = 0; n < PODS; n++) {
      await addPod(bench, bench.nodes[side], `${side}-stays-${n}`);
    }
  }
  await sleep(REST_MS);
  return [
    ...figures,
    figure("vpc.warm.ec2", "requests", [requests.ec2.length], { target: "0" }),
    figure("vpc.warm.imds", "requests", [requests.imds], {
      target: "one look each 30 s",
    }),
    ...idle,
    ...await memory(bench, `${PODS}`),
  ];
}

async function memory(
  { cluster, nodes }: VpcBench,
  when: string,
): Promise<Figure[]> {
  const held = { pools: [] as number[], vpc: [] as number[] };
  for (let n = 0; n < MEMORY_SAMPLES; n++) {
    await sleep(1_000);
    for (const side of SIDES) {
      const { pid = 0 } = cluster.daemonOf(nodes[side]) ?? {};
      held[side].push(memoryOf(pid).residentMiB);
    }
  }
  const pools = figure(`vpc.rss.pools.${when}`, "MiB", held.pools);
  const vpc = figure(`vpc.rss.vpc.${when}`, "MiB", held.vpc);
  const more = figure(`vpc.rss.more.${when}`, "MiB", [vpc.p50 - pools.p50], {
    target: "≤ 6",
  });
  return [pools, vpc, more];
}

async function oneByOne(
  bench: VpcBench,
  { upstream, rounds }: { readonly upstream: string; readonly rounds: number },
) {
  const { cluster, site, nodes } = bench;
  await using _agent = await VpcAgentStub.start({
    device: 0,
    addressOf: (n) => `10.0.30.${n % 250}`,
  });
  const times: Record<Side, { add: number[]; del: number[] }> = {
    pools: { add: [], del: [] },
    vpc: { add: [], del: [] },
    upstream: { add: [], del: [] },
  };
  const requests = await requestsIn(site, async () => {
    for (let round = 0; round < rounds; round++) {
      for (const side of SIDES) {
        const pod = await addPod(bench, nodes[side], `${side}-${round}`);
        times[side].add.push(pod.wallMs);
        times[side].del.push(await cluster.del(nodes[side], pod.sandbox));
        await cluster.removeSandbox(pod.sandbox);
      }
      const pod = `coil-${cluster.plane.name}-pod-upstream-${round}`;
      await run("ip", ["netns", "add", pod]);
      const sandbox = sandboxOf(pod, { namespace: "peer", name: pod });
      const call = {
        plugin: upstream,
        sandbox,
        node: nodes.upstream,
        logFile: `${cluster.plane.runDir}/aws-cni.log`,
      };
      times.upstream.add.push(await callUpstream("ADD", call));
      times.upstream.del.push(await callUpstream("DEL", call));
      await run("ip", ["netns", "delete", pod]);
    }
  });
  const figures = Object.entries(times).flatMap(([side, { add, del }]) => [
    figure(`vpc.add.${side}`, "ms", add),
    figure(`vpc.del.${side}`, "ms", del),
  ]);
  for (const side of SIDES) {
    const log = await cluster.daemonOf(nodes[side])?.logs() ?? "";
    for (const method of ["Add", "Del"]) {
      const name = `vpc.daemon.${method.toLowerCase()}.${side}`;
      const which = { method, namespace: "default", podPrefix: `${side}-` };
      figures.push(figure(name, "ms", handlingTimes(log, which)));
    }
  }
  const p50 = (name: string) =>
    figures.find((figure) => figure.name === name)?.p50 ?? NaN;
  const ratio = (call: string, to: Side, most: number) =>
    figure(
      `vpc.${call}.to.${to}`,
      "%",
      [100 * p50(`vpc.${call}.vpc`) / p50(`vpc.${call}.${to}`)],
      { target: `≤ ${most}` },
    );
  figures.push(
    ratio("add", "pools", 115),
    ratio("del", "pools", 115),
    ratio("add", "upstream", 45),
    ratio("del", "upstream", 35),
  );
  return { figures, requests };
}

async function callUpstream(
  command: "ADD" | "DEL",
  { plugin, sandbox, node: { netns: nodeNetns }, logFile }: {
    readonly plugin: string;
    readonly sandbox: Sandbox;
    readonly node: LabNode;
    readonly logFile: string;
  },
): Promise<number> {
  const config = peerVpcCniConfig(logFile);
  const call = { plugin, command, nodeNetns, sandbox, config };
  const { code, stdout, stderr, wallMs } = await callPlugin(call);
  if (code !== 0) {
    throw new Error(`Cannot ${command} with upstream: ${stdout}${stderr}`);
  }
  return wallMs;
}
