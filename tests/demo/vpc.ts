// Pods with addresses of their VPC: two instances of a simulated account, with
// real daemons and packets in a network that drops what EC2 would.
import assert from "node:assert/strict";
import { OUTSIDE, PEER, VpcSite } from "../lab/cloud/site.ts";
import { cloudConfig, GROUP, SUBNET } from "../lab/cloud/testing.ts";
import type { CoilCluster, LabPod } from "../lab/coil.ts";
import { eventually, type LabNode, run } from "../lab/mod.ts";
import { chapter, dim, line, shown, step, table } from "./stage.ts";

const PODS = 30;
const RIGHTS = new URL("../../deploy/vpc", import.meta.url).pathname;

/** As few addresses as pods need; the rest of a released one is 30 s by default. */
const FLAGS = [
  "--addresses=vpc",
  "--vpc-mode=address",
  "--warm-ips=1",
  "--min-ips=1",
  "--cooldown=1s",
];

/** The story, and what it is about. */
interface Scene {
  readonly cluster: CoilCluster;
  readonly site: VpcSite;
}

/** The name says whose network namespaces are made. */
export async function tellVpc(
  cluster: CoilCluster,
  { name }: { readonly name: string },
): Promise<void> {
  const of = (id: string) => (
    { id, type: "t3.medium", subnet: SUBNET, securityGroups: [GROUP] }
  );
  const instances = [of("i-0000000000000000a"), of("i-0000000000000000b")];
  const config = cloudConfig({ instances });
  await using site = await VpcSite.join(cluster.nodes, { config, name });
  // coild writes what its node has.
  await cluster.plane.kubectl("apply", "-k", RIGHTS);
  const scene: Scene = { cluster, site };
  await startNodes(scene);
  const pods = await startPods(scene);
  await pingAll(scene, pods);
  await killDaemon(scene, pods);
  await stopPods(scene, pods);
}

async function startNodes({ cluster, site }: Scene): Promise<void> {
  chapter(
    "Two instances with one network interface each",
    "EC2, the metadata service and the VPC are simulated; both nodes are t3.medium: 3 ENIs with 5 addresses for pods.",
  );
  for (const node of cluster.nodes) {
    await step(
      `coild --addresses=vpc on ${node.name}`,
      () => cluster.startCoild(node, FLAGS, site.envOf(node)),
    );
  }
  for (const node of cluster.nodes) await site.expectLayout(node, [1]);
  await showEnis({ cluster, site });
}

async function startPods({ cluster, site }: Scene): Promise<LabPod[]> {
  chapter(
    `From 0 to ${PODS} pods`,
    "All at once. What a pod needs is asked for by few calls: whole ENIs where there is room for them.",
  );
  const pods = await step(
    `${PODS} pods have addresses`,
    () =>
      Promise.all(Array.from({ length: PODS }, async (_, n) => {
        const node = cluster.nodes[n % cluster.nodes.length];
        assert.ok(node);
        const pod = { namespace: "default", name: `pod${n}` };
        const sandbox = await cluster.createSandbox(node, pod);
        return await cluster.add(node, sandbox);
      })),
  );
  for (const node of cluster.nodes) await site.expectLayout(node, [5, 5, 5]);
  await showEnis({ cluster, site });
  await showCalls(site);
  const [node] = cluster.nodes;
  assert.ok(node);
  await showBlocks(cluster, { node, pods });
  await onNode(node, "ip", "rule");
  await onNode(node, "ip", "route", "show", "table", "10001");
  return pods;
}

async function pingAll(
  { cluster, site }: Scene,
  pods: readonly LabPod[],
): Promise<void> {
  chapter(
    "Packets",
    "The VPC drops what has no source of the ENI by which it leaves, and its gateway knows the node's first address only.",
  );
  const targets: readonly [string, (n: number) => string][] = [
    ["a pod of the same node", (n) => addressOf(pods, n + 2)],
    ["a pod of the other node", (n) => addressOf(pods, n + 1)],
    [`a host of the VPC, ${PEER}`, () => PEER],
    [`a host in the Internet, ${OUTSIDE}`, () => OUTSIDE],
  ];
  for (const [what, target] of targets) {
    await step(`each pod reaches ${what}`, async () => {
      const pings = pods.map(({ sandbox }, n) =>
        cluster.exec(sandbox, "ping", "-n", "-c1", "-w20", target(n))
      );
      await Promise.all(pings);
    });
  }
  const drops = Object.entries(await site.cloud.ask.drops());
  table(["DROPPED AT", "PACKETS"], drops.map(([at, n]) => [at, `${n}`]));
  await site.assertNoDrops();
}

async function killDaemon(
  { cluster, site }: Scene,
  pods: readonly LabPod[],
): Promise<void> {
  chapter(
    "kill -9",
    "There is no file with addresses: the kernel knows which pod has which, EC2 which ones the node has.",
  );
  const [pod] = pods;
  assert.ok(pod);
  const { node, sandbox } = pod;
  const before = await site.changes();
  await step(
    `coild of ${node.name} is killed`,
    async () => await cluster.daemonOf(node)?.kill9(),
  );
  await step(
    "its pods reach the Internet all the same",
    () => cluster.exec(sandbox, "ping", "-n", "-c1", "-w20", OUTSIDE),
  );
  await step(
    "coild starts again",
    () => cluster.startCoild(node, FLAGS, site.envOf(node)),
  );
  await step("the same container has the same address", async () => {
    const again = await cluster.add(node, sandbox);
    assert.deepEqual(again.addresses, pod.addresses);
  });
  assert.deepEqual(await site.changes(), before);
  line(dim("   No call of EC2 that changes anything was made."));
}

async function stopPods(
  { cluster, site }: Scene,
  pods: readonly LabPod[],
): Promise<void> {
  chapter(
    `From ${PODS} pods to 2`,
    "An ENI goes when it has been there for a minute and its addresses have not been used for 30 s.",
  );
  const staying = await Promise.all(cluster.nodes.map(async (node) => {
    const [primary] = await site.enis(node);
    const own = new Set(primary?.secondaryAddresses.map(String));
    return pods.find(({ addresses: [address = ""] }) => own.has(address));
  }));
  const going = pods.filter((pod) => !staying.includes(pod));
  await step(`${going.length} pods end`, async () => {
    await Promise.all(going.map(async ({ node, sandbox }) => {
      await cluster.del(node, sandbox);
      await cluster.removeSandbox(sandbox);
    }));
  });
  await step("their ENIs are detached and deleted", async () => {
    for (const node of cluster.nodes) {
      await site.expectLayout(node, [2]);
    }
    // What a node no longer shows is detached: its deletion follows.
    await eventually(
      "no other ENIs",
      async () => (await site.enis()).length === cluster.nodes.length,
    );
  });
  await showEnis({ cluster, site });
  await showCalls(site);
}

function addressOf(pods: readonly LabPod[], n: number): string {
  return pods[n % pods.length]?.addresses[0] ?? "";
}

async function onNode(node: LabNode, ...command: string[]): Promise<void> {
  const [program = "", ...args] = command;
  shown(
    `${command.join(" ")}   ${dim(`# on ${node.name}`)}`,
    await node.run(program, ...args),
  );
}

/** What admins see: EC2's blocks from VPCNodes, which coild writes now and then, and pods' addresses from their status. */
async function showBlocks(
  cluster: CoilCluster,
  { node, pods }: { readonly node: LabNode; readonly pods: readonly LabPod[] },
): Promise<void> {
  for (const pod of pods) await cluster.reportStatus(pod);
  const args = ["ipam", "show", "blocks", `--node=${node.name}`];
  const wanted = pods.filter((pod) => pod.node === node).length;
  const text = await step(
    "the API server shows the blocks, and which are in use",
    () =>
      eventually("the blocks", async () => {
        const text = await run(`${cluster.binDir}/coil`, args, {
          env: { KUBECONFIG: cluster.plane.kubeconfig },
        });
        const used = [...text.matchAll(/ 1 +1 +active /g)].length;
        return used === wanted && text;
      }, { intervalMs: 500 }),
  );
  shown(`coil ${args.join(" ")}`, text);
}

async function showEnis({ cluster, site }: Scene): Promise<void> {
  const rows = await Promise.all(
    cluster.nodes.map(async (node) =>
      (await site.enis(node)).map((eni) => [
        node.name,
        `eth${eni.attachment?.deviceIndex}`,
        eni.networkInterfaceId,
        `${eni.primaryAddress}`,
        eni.secondaryAddresses.join(" "),
      ])
    ),
  );
  table(["NODE", "LINK", "ENI", "ITS OWN", "FOR PODS"], rows.flat());
}

async function showCalls(site: VpcSite): Promise<void> {
  const calls = Object.entries(await site.changes()).sort();
  table(["CALLS OF EC2 SO FAR", ""], calls.map(([call, n]) => [call, `${n}`]));
}
