// Pods with addresses of delegated prefixes: a whole coild on each node, a real
// API server, EC2 and the metadata service as a process, and packets in a fabric
// that drops what has no source of its ENI. Nodes of one cluster, since each
// waits for most of its time.
import assert from "node:assert/strict";
import { Address } from "../../lib/inet/mod.ts";
import { coil } from "../../roles/cli/testing.ts";
import { byHand, cloudConfig, GROUP, INSTANCE } from "../lab/cloud/testing.ts";
import { eventually, type LabNode } from "../lab/mod.ts";
import { ENI_INSTANCE_TAG } from "../../lib/names/mod.ts";
import { BARE, VpcLab } from "./coild_vpc_lab.ts";
import { VpcPods } from "./coild_vpc_pods.ts";
import { patchPodStatus } from "./patch_status.ts";

const FRAGMENTED = "subnet-fragmented";

/** Two prefixes for each ENI, and a rest that is over soon. */
const SMALL = [
  "--vpc-mode=prefix",
  "--eni-limits=3,3",
  "--warm-prefixes=2",
  "--cooldown=1s",
];

async function startLab(): Promise<VpcLab> {
  const { subnets } = cloudConfig();
  const of = (id: string, subnet: string) => (
    { id, type: "t3.small", subnet, securityGroups: [GROUP] }
  );
  return await VpcLab.start("coildvpcprefix", {
    subnets: [
      ...subnets,
      { id: FRAGMENTED, zone: "eu-test-1a", cidr: "10.0.2.0/26" },
    ],
    instances: [
      of(INSTANCE, "subnet-a"),
      of("i-0000000000000000b", FRAGMENTED),
      of("i-0000000000000000c", "subnet-a"),
      of("i-0000000000000000d", "subnet-a"),
    ],
  });
}

async function startPods(
  vpc: VpcLab,
  node: LabNode,
  args: readonly string[] = [],
): Promise<VpcPods> {
  return new VpcPods(vpc, await vpc.start(args, node));
}

/** What a node has by its ENIs, as `ip` and `nft` show it. */
const HOST_STATE = [
  "ip rule",
  "ip -6 rule",
  "ip route show table 10001",
  "ip -6 route show table 10001",
  "nft list table inet coil-vpc",
];

/** Removes all of that, as other programs do, and waits until it is back. */
async function emptyHost(node: LabNode): Promise<void> {
  const run = (command: string) => {
    const [program = "", ...args] = command.split(" ");
    return node.run(program, ...args);
  };
  // Rules of one priority may come back in another order.
  const state = async () =>
    (await Promise.all(HOST_STATE.map(run)))
      .map((text) => text.split("\n").sort().join("\n")).join("\n");
  const before = await state();
  await run("nft delete table inet coil-vpc");
  for (const family of ["-4", "-6"]) {
    await run(`ip ${family} route flush table 10001`);
    await run(`ip ${family} rule del pref 1024`);
    await run(`ip ${family} rule del pref 1536`);
  }
  await eventually("the node's network", async () => await state() === before);
}

/** Takes one address of each prefix that a /26 has to give, as an ENI of others. Returns what gives them back. */
async function fragment(vpc: VpcLab): Promise<() => Promise<void>> {
  const { cloud } = vpc;
  const created = await byHand(cloud, "CreateNetworkInterface", {
    SubnetId: FRAGMENTED,
    "SecurityGroupId.1": GROUP,
  });
  const [NetworkInterfaceId = ""] = created.all("networkInterfaceId");
  const taken = {
    NetworkInterfaceId,
    "PrivateIpAddress.1": "10.0.2.20",
    "PrivateIpAddress.2": "10.0.2.40",
  };
  await byHand(cloud, "AssignPrivateIpAddresses", taken);
  const unassign = "UnassignPrivateIpAddresses";
  return async () => void await byHand(cloud, unassign, taken);
}

/** Waits until the administrator sees these pods' addresses in blocks of their nodes. */
async function showsNoFault(
  { lab }: VpcLab,
  { coild: { node }, all: pods }: VpcPods,
): Promise<void> {
  for (const { pod, addresses } of pods) {
    await patchPodStatus(lab.plane, pod, { ips: addresses });
  }
  const config = `--kubeconfig=${lab.plane.kubeconfig}`;
  const args = ["ipam", "show", "addresses", `--node=${node.name}`, config];
  // coild writes its VPCNode now and then.
  await eventually("addresses in their blocks", async () => {
    const { out, err } = await coil([...args, "--no-headers"]);
    const lines = out.trim().split("\n");
    return lines.length === pods.length && err === "" &&
      lines.every((line) => / ok /.test(line));
  });
}

Deno.test("coild --addresses=vpc gives pods addresses of prefixes on several ENIs, and gives back what they no longer need", async (t) => {
  await using vpc = await startLab();
  const { lab: { nodes: [node, other, dual, ipv6] } } = vpc;
  assert.ok(node && other && dual && ipv6);
  await using stack = new AsyncDisposableStack();
  const pods = new VpcPods(vpc, await vpc.start(SMALL));
  stack.defer(() => pods.coild[Symbol.asyncDispose]());

  await t.step("34 pods at once, on two of three ENIs", async () => {
    await pods.add(34);
    await vpc.site.expectLayout(node, [2, 2, 1]);
    const enis = await vpc.site.enis(node);
    const countOn = (device: number) =>
      pods.all.filter(({ addresses: [address = ""] }) =>
        enis[device]?.ipv4Prefixes.some((prefix) =>
          prefix.contains(Address.parse(address))
        )
      ).length;
    assert.deepEqual([0, 1, 2].map(countOn), [32, 2, 0]);
    await pods.assertReachable();
  });

  await t.step(
    "in a fragmented subnet, and in one that has been mended",
    async () => {
      const mend = await fragment(vpc);
      const args = ["--vpc-mode=prefix"];
      const guests = new VpcPods(vpc, await vpc.start(args, other));
      stack.defer(() => guests.coild[Symbol.asyncDispose]());
      await guests.add(1);
      await vpc.site.expectLayout(other, [2]);
      const [before] = await vpc.site.enis(other);
      assert.deepEqual(before?.ipv4Prefixes, []);
      await mend();
      // What was learned of the subnet goes with the process; else it would take two minutes.
      await guests.coild.process.kill9();
      guests.coild = await vpc.start(args, other);
      await eventually("a prefix", async () => {
        const [eni] = await vpc.site.enis(other);
        return eni?.ipv4Prefixes.length === 1;
      });
      await guests.add(9);
      await guests.assertReachable();
    },
  );

  await t.step("both families on several ENIs, and IPv6 alone", async () => {
    const [both, single] = await Promise.all([
      startPods(vpc, dual, ["--ip-family=dual", ...BARE]),
      startPods(vpc, ipv6, ["--ip-family=ipv6"]),
    ]);
    stack.defer(() => both.coild[Symbol.asyncDispose]());
    stack.defer(() => single.coild[Symbol.asyncDispose]());
    await Promise.all([both.add(5), single.add(17)]);
    await vpc.site.expectLayout(dual, [3, 3]);
    await vpc.site.expectLayout(ipv6, [0]);
    for (const { addresses } of both.all) {
      const [own = "", end = ""] = addresses;
      assert.equal(
        Address.parse(end).value & 0xffff_ffffn,
        Address.parse(own).value,
      );
    }
    await showsNoFault(vpc, both);
    await showsNoFault(vpc, single);
    const ofBoth = both.all[4]?.addresses ?? [];
    const ofSingle = single.all[16]?.addresses ?? [];
    assert.deepEqual([ofBoth.length, ofSingle.length], [2, 1]);
    await both.assertReachable(ofSingle);
    await single.assertReachable(ofBoth);
    await emptyHost(dual);
    await both.assertReachable();
  });

  await t.step("from 34 pods to 2", async () => {
    const [primary] = await vpc.site.enis(node);
    const [prefix] = primary?.ipv4Prefixes ?? [];
    const staying = pods.all.filter(({ addresses: [address = ""] }) =>
      prefix?.contains(Address.parse(address))
    ).slice(0, 2);
    const { ask } = vpc.cloud;
    await ask.setPace({ detachMs: 5_000 });
    // As EC2 answers for a while after it has shown the ENI as free.
    const code = "InvalidParameterValue";
    const call = "DeleteNetworkInterface";
    await ask.fault({ call, kind: "error", code, times: 1 });
    await pods.keep((pod) => staying.includes(pod));
    await eventually("a detachment", async () => {
      const { DetachNetworkInterface } = await vpc.site.changes();
      return DetachNetworkInterface === 1;
    });
    await pods.coild.process.kill9();
    pods.coild = await vpc.start(SMALL);
    await eventually("the ENI to be deleted, after the refusal", async () => {
      const changes = await vpc.site.changes();
      return (changes[call] ?? 0) >= 2;
    });
    await vpc.site.expectLayout(node, [2, 1]);
    const changes = await vpc.site.changes();
    const { DetachNetworkInterface, [call]: deletions = 0 } = changes;
    assert.equal(DetachNetworkInterface, 1);
    // Not always two: the killed coild may have made some of which its successor does not know.
    assert.ok(deletions <= 4, `${deletions} deletions`);
    const loose = (await vpc.site.enis()).filter(({ attachment, tags }) =>
      attachment === undefined && tags[ENI_INSTANCE_TAG] !== undefined
    );
    assert.deepEqual(loose, []);
    await pods.assertReachable();
  });
});
