// A node with addresses of its VPC beside one with pools, in the same run; and
// how it starts again with three ENIs and 50 pods. EC2, the metadata service and
// the VPC are those of tests/lab/cloud, whose record has each request.
import { VpcSite } from "../lab/cloud/site.ts";
import { cloudConfig, GROUP, SUBNET } from "../lab/cloud/testing.ts";
import { CoilCluster, type LabPod } from "../lab/coil.ts";
import { type LabNode, removeLabOnSignals, sleep } from "../lab/mod.ts";
import { handlingTimes } from "./daemon_log.ts";
import { type Figure, figure } from "./figures.ts";
import { ipamFigures } from "./ipam.ts";
import { memoryOf } from "./process_memory.ts";

const NAME = "bench-vpc";

/** More than the pods of a run: those that were used lately rest. */
const WARM = ["--addresses=vpc", "--vpc-mode=prefix", "--min-ips=256"];

/** Three ENIs with two prefixes each for 50 pods. */
const THREE_ENIS = [
  "--addresses=vpc",
  "--vpc-mode=prefix",
  "--eni-limits=3,3",
  "--warm-prefixes=2",
];
const PODS = 50;

/** Until EC2 is no longer asked for what an earlier process may have done. */
const SETTLE_MS = 12_000;

/** What EC2 takes for each call while a node starts again. */
const EC2_MS = 50;

/** `vpc.*`, and `ipam.735.*`: a node of the largest type with single addresses. */
export async function vpcFigures(
  { executable, quick, log }: {
    readonly executable: string;
    readonly quick: boolean;
    readonly log: (text: string) => void;
  },
): Promise<Figure[]> {
  removeLabOnSignals(NAME, log);
  await using cluster = await CoilCluster.start({
    name: NAME,
    executable,
    nodes: 3,
    log,
  });
  const [pools, warm, cold] = cluster.nodes;
  if (pools === undefined || warm === undefined || cold === undefined) {
    throw new Error("Cannot measure without three nodes");
  }
  await using site = await joinVpc([warm, cold]);
  await cluster.startController();
  await cluster.plane.apply({
    apiVersion: "coil.cybozu.com/v2",
    kind: "AddressPool",
    metadata: { name: "default" },
    spec: { blockSizeBits: 8, subnets: [{ ipv4: "10.128.0.0/16" }] },
  });
  await cluster.startCoild(pools);
  await cluster.startCoild(warm, WARM, site.envOf(warm));
  await site.expectLayout(warm, [16]);
  // What an earlier process may have done is settled then, by a last look.
  await sleep(SETTLE_MS);
  log("one pod at a time, with pools and with addresses of the VPC");
  const figures = await warmFigures(cluster, {
    site,
    nodes: { pools, vpc: warm },
    rounds: quick ? 20 : 100,
  });
  log(`${PODS} pods on three ENIs, and coild starts again`);
  figures.push(...await coldFigures(cluster, { site, node: cold }));
  log("735 blocks");
  return [...figures, ...await ipamFigures([[735, 32]])];
}

async function joinVpc(nodes: readonly LabNode[]): Promise<VpcSite> {
  const of = (id: string, type: string) => (
    { id, type, subnet: SUBNET, securityGroups: [GROUP] }
  );
  const config = cloudConfig({
    subnets: [{ id: SUBNET, zone: "eu-test-1a", cidr: "10.0.16.0/20" }],
    instances: [
      of("i-0000000000000000a", "m5.24xlarge"),
      of("i-0000000000000000b", "t3.small"),
    ],
  });
  return await VpcSite.join(nodes, { config, name: NAME });
}

/** How many requests EC2 and the metadata service got while something is done. */
async function requestsIn(
  { cloud }: VpcSite,
  work: () => Promise<void>,
): Promise<{ readonly ec2: number; readonly imds: number }> {
  const { length } = await cloud.ask.calls(0);
  await work();
  const calls = await cloud.ask.calls(length);
  const imds = calls.filter(({ call }) => call.startsWith("IMDS")).length;
  return { ec2: calls.length - imds, imds };
}

async function warmFigures(
  cluster: CoilCluster,
  { site, nodes, rounds }: {
    readonly site: VpcSite;
    readonly nodes: Readonly<Record<"pools" | "vpc", LabNode>>;
    readonly rounds: number;
  },
): Promise<Figure[]> {
  const sides = Object.entries(nodes).map(([side, node]) => (
    { side, node, add: [] as number[], del: [] as number[] }
  ));
  const requests = await requestsIn(site, async () => {
    for (let round = 0; round < rounds; round++) {
      for (const { side, node, add, del } of sides) {
        const pod = await addPod(cluster, node, `${side}-${round}`);
        add.push(pod.wallMs);
        del.push(await cluster.del(node, pod.sandbox));
        await cluster.removeSandbox(pod.sandbox);
      }
    }
  });
  const figures: Figure[] = [];
  for (const { side, node, add, del } of sides) {
    const daemon = cluster.daemonOf(node);
    const log = await daemon?.logs() ?? "";
    const handled = (method: string) =>
      handlingTimes(log, { method, namespace: "default", podPrefix: side });
    figures.push(
      figure(`vpc.add.${side}`, "ms", add),
      figure(`vpc.del.${side}`, "ms", del),
      figure(`vpc.daemon.add.${side}`, "ms", handled("Add")),
      figure(`vpc.daemon.del.${side}`, "ms", handled("Del")),
      figure(`vpc.rss.${side}`, "MiB", [
        memoryOf(daemon?.pid ?? 0).residentMiB,
      ]),
    );
  }
  return [
    ...figures,
    figure("vpc.warm.ec2", "requests", [requests.ec2], { target: "0" }),
    figure("vpc.warm.imds", "requests", [requests.imds], {
      target: "one look each 30 s",
    }),
  ];
}

async function coldFigures(
  cluster: CoilCluster,
  { site, node }: { readonly site: VpcSite; readonly node: LabNode },
): Promise<Figure[]> {
  const env = site.envOf(node);
  const daemon = await cluster.startCoild(node, THREE_ENIS, env);
  const names = Array.from({ length: PODS }, (_, n) => `cold-${n}`);
  await Promise.all(names.map((name) => addPod(cluster, node, name)));
  await site.expectLayout(node, [2, 2, 2]);
  await site.quiet();
  await daemon.kill9();
  await site.cloud.ask.setPace({ answerMs: EC2_MS });
  let readyMs = 0;
  const requests = await requestsIn(site, async () => {
    const beganMs = performance.now();
    await cluster.startCoild(node, THREE_ENIS, env);
    readyMs = performance.now() - beganMs;
  });
  return [
    figure("vpc.cold.ready", "ms", [readyMs], { target: "≤ 1500" }),
    figure("vpc.cold.ec2", "requests", [requests.ec2], { target: "≤ 3" }),
    figure("vpc.cold.imds", "requests", [requests.imds], { target: "≤ 20" }),
  ];
}

async function addPod(
  cluster: CoilCluster,
  node: LabNode,
  name: string,
): Promise<LabPod> {
  const pod = { namespace: "default", name };
  return await cluster.add(node, await cluster.createSandbox(node, pod));
}
