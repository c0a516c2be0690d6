import assert from "node:assert/strict";
import { untilPasses, untilQuiet } from "../../../lib/async/testing.ts";
import { Address, valuesOf } from "../../../lib/inet/mod.ts";
import { VpcHostProblem } from "../../../lib/vpc/mod.ts";
import { CLUSTER, INSTANCE } from "../../../tests/lab/cloud/testing.ts";
import {
  assertNothingLoose,
  BARE,
  later,
  NANO,
  type NodeProcess,
  podsOf,
  runStories,
  SimulatedNode,
} from "./testing.ts";

/** As few addresses as pods need, of either kind. */
const WARM = BARE.slice(1);

/** So long after the start nothing goes, and nothing is kept in store. */
const SETTLE_MS = 10_000;

const TESTS = new Map<string, () => Promise<void>>();

function test(what: string, fn: () => Promise<void>): void {
  TESTS.set(what, fn);
}

/** As a runtime that repeats the call: on a busy machine a short wait may be over before the first look at EC2. */
async function patiently(coild: NodeProcess, pod: string): Promise<string> {
  let address = "";
  await untilPasses(async () => void (address = await coild.add(pod)));
  return address;
}

test("nine pods at once get addresses of a t3.small that has none: by few calls, and once each", async () => {
  await using node = await SimulatedNode.start();
  await using coild = node.process(BARE);
  const addresses = await Promise.all(podsOf(9).map((pod) => coild.add(pod)));
  assert.equal(new Set(addresses).size, 9);
  await node.expectLayout(3, 3, 3);
  await untilPasses(async () => {
    const { AssignPrivateIpAddresses: assigned = 0, ...others } = await node
      .changes();
    assert.ok(assigned <= 2);
    assert.deepEqual(others, {
      CreateNetworkInterface: 2,
      AttachNetworkInterface: 2,
      ModifyNetworkInterfaceAttribute: 2,
    });
  });
  await coild.remove("pod0");
  const metrics = await coild.registry.metrics();
  for (
    const line of [
      "enis 3",
      'blocks{usable="true"} 9',
      'addresses{state="used"} 8',
      'addresses{state="cooling"} 1',
      'addresses{state="free"} 0',
      "waiting 0",
      'plan_actions_total{action="create"} 2',
      'api_requests_total{call="CreateNetworkInterface",result="success"} 2',
    ]
  ) {
    assert.ok(metrics.includes(`\ncoil_vpc_${line}\n`), line);
  }
});

test("the first of nine pods that are bound to the node makes coild ask EC2 for all of them, by three calls", async () => {
  await using node = await SimulatedNode.start();
  await using coild = node.process(BARE);
  await node.expectLayout(1);
  const before = await node.changes();
  node.pods = podsOf(9).map((name) => ({ metadata: { name, uid: name } }));
  await coild.add("pod0");
  await node.expectLayout(3, 3, 3);
  const { AssignPrivateIpAddresses, CreateNetworkInterface } = await node
    .changes();
  assert.deepEqual(
    { before, AssignPrivateIpAddresses, CreateNetworkInterface },
    {
      before: { AssignPrivateIpAddresses: 1 },
      AssignPrivateIpAddresses: 2,
      CreateNetworkInterface: 2,
    },
  );
});

test("coild asks EC2 for no more pods than the kubelet runs, and for none that has its address", async () => {
  await using node = await SimulatedNode.start();
  await using coild = node.process(BARE);
  await node.expectLayout(1);
  node.scheduling = { isCordoned: false, maxPods: 4 };
  node.pods = podsOf(9).map((name) => ({ metadata: { name, uid: name } }));
  for (const pod of podsOf(4)) await coild.add(pod);
  await node.expectLayout(3, 1);
  node.scheduling = undefined;
  node.pods = node.pods.slice(0, 4);
  await coild.remove("pod3");
  await coild.add("pod4");
  // Four pods have addresses, one is warm, and one rests.
  await node.expectLayout(3, 3);
});

test("no address is kept for pods that have not asked for five minutes", async () => {
  await using node = await SimulatedNode.start();
  await using coild = node.process(BARE);
  await node.expectLayout(1);
  node.pods = podsOf(9).map((name) => ({ metadata: { name, uid: name } }));
  await coild.add("pod0");
  await node.expectLayout(3, 3, 3);
  node.aheadMs = 300_000;
  await coild.add("pod1");
  await later(() => node.expectLayout(3));
  await later(() => assertNothingLoose(node));
});

test("by default pods get addresses of prefixes where the type has them", async () => {
  await using node = await SimulatedNode.start();
  await using coild = node.process();
  await coild.add("pod0");
  const [eni] = node.settings?.enis ?? [];
  assert.deepEqual(eni?.blocks.map(({ hostBits }) => hostBits), [4]);
});

test("what does not change of an ENI is asked for once, and the rest once at each look", async () => {
  await using node = await SimulatedNode.start();
  await using coild = node.process(BARE);
  for (const pod of podsOf(2)) await coild.add(pod);
  await node.expectLayout(3);
  // A look may be under way.
  await untilPasses(async () => {
    const calls = await node.cloud.ask.calls(0);
    const countOf = (key: string) =>
      calls.filter(({ call }) => call.endsWith(`/${key}`)).length;
    for (const key of ["interface-id", "device-number"]) {
      assert.equal(countOf(key), 1, key);
    }
    const looks = countOf("macs/");
    assert.ok(looks > 1);
    assert.equal(countOf("local-ipv4s"), looks);
    assert.equal(countOf("ipv6-prefix"), 0, "not without IPv6");
  });
});

test("no address is given before the instance metadata show it", async () => {
  await using node = await SimulatedNode.start();
  await node.cloud.ask.setPace({ imdsLagMs: 1_500 });
  await using coild = node.process(BARE);
  const began = performance.now();
  await coild.add("pod0");
  assert.ok(performance.now() - began > 1_400);
});

test("a pod that comes when the type's addresses are in use waits, and the error says that some rest", async () => {
  await using node = await SimulatedNode.start({ instances: [NANO] });
  // The cooldown outlasts the wait by more than a busy machine holds the test up.
  const cooldownMs = 20_000;
  await using coild = node.process(BARE, { cooldownMs, waitMs: 4_000 });
  const [first] = await Promise.all(
    podsOf(2).map((pod) => patiently(coild, pod)),
  );
  const removed = performance.now();
  await coild.remove("pod0");
  await assert.rejects(
    coild.add("pod2"),
    /^OutOfBlocksError: .*the instance type allows no more; 1 of its addresses are in cooldown, the first for (1[0-6]|[1-9]) s more$/,
  );
  assert.equal(await patiently(coild, "pod2"), first);
  assert.ok(performance.now() - removed >= cooldownMs);
});

test("a process that is killed leaves all that the next one needs: the same addresses, no call of EC2 that changes anything", async () => {
  await using node = await SimulatedNode.start();
  const first = node.process(BARE);
  const before = await Promise.all(podsOf(5).map((pod) => first.add(pod)));
  await node.expectLayout(3, 3);
  await first.remove("pod4");
  await first[Symbol.asyncDispose]();
  const calls = await node.changes();
  await using second = node.process(BARE);
  await second.ready;
  assert.deepEqual(
    second.ipam.list().map(({ addresses }) => String(addresses.ipv4)).sort(),
    before.slice(0, 4).sort(),
  );
  const resting = second.ipam.blocks()
    .filter(({ cooling }) => cooling > 0).map(({ prefixes }) => prefixes.ipv4);
  assert.deepEqual(resting.map(String), [`${before[4]}/32`]);
  assert.deepEqual(await node.changes(), calls);
});

test("a stop waits for a call that is under way, and the next process does not make it again", async () => {
  await using node = await SimulatedNode.start();
  const call = "AssignPrivateIpAddresses";
  const lateMs = 6_000;
  await node.cloud.ask.fault({ call, kind: "late", ms: lateMs, times: 1 });
  const startMs = performance.now();
  const first = node.process(BARE);
  await untilPasses(async () => assert.equal((await node.changes())[call], 1));
  await first[Symbol.asyncDispose]();
  // The call began after the start; how soon it was seen depends on the machine.
  assert.ok(performance.now() - startMs > lateMs);
  await using second = node.process(BARE);
  await second.ready;
  assert.equal((await node.changes())[call], 1);
});

const QUIET_MS = 2_000;

test("a plan for pods that come waits until they have their addresses, and is one for all", async () => {
  for (let tries = 1; await addBeforeThePlan() === "disturbed"; tries++) {
    assert.ok(tries < 3, "a busy machine disturbed each try");
  }
});

/** The node calls EC2 10 s after its start, and plans again 10 s after that: on a busy machine in the middle of the test. */
async function addBeforeThePlan(): Promise<"waited" | "disturbed"> {
  await using node = await SimulatedNode.start();
  let looks = 0;
  // Each plan asks for it.
  Object.defineProperty(node, "scheduling", { get: () => void looks++ });
  const startMs = performance.now();
  await using coild = node.process(["--vpc-mode=address", "--min-ips=3"]);
  await untilPasses(() => assert.equal(coild.ipam.blocks().length, 3));
  node.held = [];
  // Longer than a busy machine lets a plan wait for a processor.
  await untilQuiet(() => looks, QUIET_MS);
  const before = looks;
  for (const pod of podsOf(3)) await coild.add(pod);
  await untilQuiet(() => looks, QUIET_MS);
  const isLate = performance.now() - startMs > 2 * SETTLE_MS;
  if (isLate && looks !== before) return "disturbed";
  assert.equal(looks, before);
  // Rests are swept by the same clock, about twice a minute.
  const waits = node.held.filter(({ ms }) => ms < 1_000);
  assert.equal(waits.length, 1);
  waits[0]?.end();
  await untilPasses(() => assert.ok(looks > before));
  return "waited";
}

test("a stop sends EC2 no change that has waited to be sent again", async () => {
  await using node = await SimulatedNode.start();
  const call = "AssignPrivateIpAddresses";
  const code = "RequestLimitExceeded";
  await node.cloud.ask.fault({ call, kind: "error", code });
  const count = async () => (await node.changes())[call] ?? 0;
  const coild = node.process(BARE);
  await untilPasses(async () => assert.ok(await count() > 0));
  const before = await count();
  await coild[Symbol.asyncDispose]();
  const more = await count() - before;
  // The budget makes five attempts; one may be under way, and one may have been since it was counted.
  assert.ok(more <= 2, `${more} were sent`);
});

test("a stop begins no call of EC2 any more", async () => {
  await using node = await SimulatedNode.start();
  node.ensureMs = 1_000;
  const coild = node.process(BARE);
  await untilPasses(() => assert.notEqual(node.settings, undefined));
  await coild[Symbol.asyncDispose]();
  assert.deepEqual(await node.changes(), {});
});

test("what EC2 has done without an answer is used, and not asked for again", async () => {
  await using node = await SimulatedNode.start();
  const faults = { times: 1, kind: "cut", when: "after" } as const;
  const calls = [
    "AssignPrivateIpAddresses",
    "CreateNetworkInterface",
    "AttachNetworkInterface",
  ];
  for (const call of calls) await node.cloud.ask.fault({ call, ...faults });
  await using coild = node.process(BARE);
  for (const pod of podsOf(4)) await coild.add(pod);
  const { CreateNetworkInterface, AttachNetworkInterface } = await node
    .changes();
  // With its token, it is the same call.
  assert.equal(CreateNetworkInterface, 2);
  assert.equal(AttachNetworkInterface, 1);
  assert.equal(node.layout().length, 2);
});

test("throttling at start is waited for", async () => {
  await using node = await SimulatedNode.start();
  for (const call of ["DescribeInstanceTypes", "DescribeNetworkInterfaces"]) {
    await node.cloud.ask.fault({
      call,
      kind: "error",
      code: "RequestLimitExceeded",
      times: 2,
    });
  }
  await using coild = node.process(BARE);
  await coild.add("pod0");
});

for (const mode of ["address", "prefix"]) {
  test(`--ip-family=dual --vpc-mode=${mode}: an IPv6 address is the ENI's /80 with the IPv4 address as its end, also after a restart`, async () => {
    await using node = await SimulatedNode.start();
    const args = ["--ip-family=dual", `--vpc-mode=${mode}`, ...WARM];
    const first = node.process(args);
    const before = await Promise.all(podsOf(4).map((pod) => first.add(pod)));
    await first[Symbol.asyncDispose]();
    const { AssignIpv6Addresses } = await node.changes();
    assert.equal(AssignIpv6Addresses, 1, "new ENIs are made with theirs");
    const { enis = [], families } = node.settings ?? {};
    assert.deepEqual(families, ["ipv4", "ipv6"]);
    const [primary] = enis;
    assert.equal(String(primary?.addresses.ipv6), "fd10:0:0:1::10");
    assert.equal(String(primary?.gateways.ipv6), "fd10:0:0:1::1");
    for (const text of before) {
      const [own = "", address = ""] = text.split(" ");
      const { value } = Address.parse(address);
      const ipv4 = Address.of("ipv4", value & 0xffff_ffffn);
      assert.equal(own, String(ipv4));
      const eni = enis.find(({ blocks }) =>
        blocks.some((block) => block.contains(ipv4))
      );
      const prefix = eni?.blocks.find(({ length }) => length === 80);
      assert.equal(prefix?.address.value, value >> 32n << 32n);
    }
    await assertKept(node, { args, before });
  });
}

/** Pods have their addresses after a restart, also where no more are given. */
async function assertKept(
  node: SimulatedNode,
  { args, before }: {
    readonly args: readonly string[];
    readonly before: readonly string[];
  },
): Promise<void> {
  node.problems = (node.settings?.enis ?? []).map(({ id: eni }) =>
    new VpcHostProblem("Cannot find it", { eni })
  );
  await using second = node.process(args);
  await second.ready;
  const known = second.ipam.list()
    .map(({ addresses }) => valuesOf(addresses).join(" "));
  assert.deepEqual(known.sort(), [...before].sort());
  const held = second.ipam.blocks().map((block) => block.held);
  assert.equal(held.reduce((sum, n) => sum + n, 0), before.length);
}

test("--ip-family=ipv6: pods have addresses of the primary ENI's /80, which is all that EC2 is asked for, also after a restart", async () => {
  await using node = await SimulatedNode.start({ instances: [NANO] });
  const args = ["--ip-family=ipv6"];
  const first = node.process(args);
  const before = await Promise.all(podsOf(40).map((pod) => first.add(pod)));
  assert.equal(new Set(before).size, 40);
  const [eni, ...others] = node.settings?.enis ?? [];
  assert.deepEqual(others, []);
  const [prefix, ...more] = eni?.blocks ?? [];
  assert.deepEqual(more, []);
  assert.equal(prefix?.length, 80);
  assert.ok(before.every((text) => prefix?.contains(Address.parse(text))));
  await first[Symbol.asyncDispose]();
  await assertKept(node, { args, before });
  node.problems = [];
  // At once: a /80 is not given back, so no earlier process can have.
  await using third = node.process(args, { waitMs: 5_000 });
  assert.ok(!before.includes(await third.add("later")));
  assert.deepEqual(await node.changes(), { AssignIpv6Addresses: 1 });
});

test("no IPv6 address is given before the instance metadata show the ENI's /80, and soon then", async () => {
  await using node = await SimulatedNode.start();
  await node.cloud.ask.setPace({ imdsLagMs: 1_500 });
  await using coild = node.process(["--ip-family=ipv6"], { waitMs: 15_000 });
  const began = performance.now();
  await coild.add("pod0");
  assert.ok(performance.now() - began > 1_400);
});

test("IPv6 is refused where the type allows no prefixes", async () => {
  const instances = [{ ...NANO, type: "t2.nano" }];
  await using node = await SimulatedNode.start({ instances });
  await using coild = node.process(["--ip-family=dual"]);
  await assert.rejects(
    coild.running,
    /^RangeError: Cannot give pods IPv6 addresses: the instance type allows no prefixes$/,
  );
});

test("limits beyond the type's are refused", async () => {
  await using node = await SimulatedNode.start();
  await using coild = node.process(["--eni-limits=4,4"]);
  await assert.rejects(
    coild.running,
    /^RangeError: Cannot use ENI limits: enis is 4, the instance type has 3$/,
  );
});

test("no address is given of an ENI that the kernel lacks", async () => {
  await using node = await SimulatedNode.start();
  const eni = "eni-00000000000000001";
  node.problems = [new VpcHostProblem("Cannot find it", { eni })];
  await using coild = node.process(BARE, { waitMs: 300 });
  await node.expectLayout(1);
  assert.equal(node.settings?.enis[0]?.id, eni);
  await assert.rejects(coild.add("pod0"), /^BlockTimeoutError/);
  node.problems = [];
  await untilPasses(async () => void await coild.add("pod0"));
});

test("a kernel that cannot be read is soon asked again", async () => {
  await using node = await SimulatedNode.start();
  node.failsUntilMs = performance.now() + 1_000;
  await using coild = node.process(BARE);
  let isReady = false;
  coild.ready.then(() => isReady = true, () => {});
  // Before the next look at EC2 or the metadata.
  await untilPasses(() => assert.ok(isReady));
});

test("a pod is not refused while the kernel lacks the ENI that has an address for it", async () => {
  await using node = await SimulatedNode.start({ instances: [NANO] });
  const eni = "eni-00000000000000003";
  node.problems = [new VpcHostProblem("Cannot find it", { eni })];
  await using coild = node.process(BARE, { waitMs: 4_000 });
  await patiently(coild, "pod0");
  await node.expectLayout(1, 1);
  assert.equal(node.settings?.enis[1]?.id, eni);
  await assert.rejects(coild.add("pod1"), /^BlockTimeoutError/);
  node.problems = [];
  await untilPasses(async () => void await coild.add("pod1"));
});

test("a call that ends while the kernel is changed is not made again", async () => {
  await using node = await SimulatedNode.start();
  node.ensureMs = 60;
  await using coild = node.process(BARE);
  await Promise.all(podsOf(3).map((pod) => coild.add(pod)));
  await node.expectLayout(3, 1);
  const { CreateNetworkInterface, AttachNetworkInterface } = await node
    .changes();
  assert.deepEqual([CreateNetworkInterface, AttachNetworkInterface], [1, 1]);
});

/** Addresses go back to EC2, and come again while they are still shown. */
async function giveBackAndTake(family: string): Promise<void> {
  await using node = await SimulatedNode.start();
  const args = [`--ip-family=${family}`, ...BARE];
  await using coild = node.process(args, { cooldownMs: 100 });
  const addresses: string[] = [];
  for (const pod of podsOf(3)) addresses.push(await coild.add(pod));
  // Each ENI has a prefix of IPv6 besides.
  await (family === "dual" ? node.expectLayout(4, 2) : node.expectLayout(3, 1));
  await node.cloud.ask.setPace({ imdsLagMs: 2_000 });
  node.aheadMs = SETTLE_MS;
  await coild.remove("pod0");
  await coild.remove("pod1");
  await untilPasses(async () => {
    const { UnassignPrivateIpAddresses } = await node.changes();
    assert.equal(UnassignPrivateIpAddresses, 2);
  });
  const again = ["pod3", "pod4", "pod5"].map((pod) => coild.add(pod));
  const given = new Set(await Promise.all(again));
  assert.equal(given.size, 3);
  assert.ok(addresses.some((address) => given.has(address)));
}

test("addresses that are not needed go back to EC2, and can come again", async () => {
  await Promise.all(["ipv4", "dual"].map(giveBackAndTake));
});

test("an address that the kernel still routes is not given back to EC2, even when no known pod has it", async () => {
  await using node = await SimulatedNode.start();
  await using coild = node.process(BARE, { cooldownMs: 100 });
  for (const pod of podsOf(3)) await coild.add(pod);
  await node.expectLayout(3, 1);
  const [, second] = node.settings?.enis ?? [];
  const [block] = second?.blocks ?? [];
  assert.ok(block);
  node.routes.set("unknown", { ipv4: block.address });
  node.aheadMs = SETTLE_MS;
  await coild.remove("pod0");
  await coild.remove("pod1");
  await node.expectLayout(2, 1);
  node.routes.delete("unknown");
  await node.expectLayout(2, 0);
});

test("new ENIs have the tags of their instance, their cluster and the admin", async () => {
  await using node = await SimulatedNode.start();
  await using coild = node.process([...BARE, "--eni-tags=team=net"]);
  await Promise.all(podsOf(4).map((pod) => coild.add(pod)));
  const created = (await node.cloud.ask.calls(0))
    .find(({ call }) => call === "CreateNetworkInterface");
  const tags = Object.entries(created?.parameters ?? {})
    .filter(([name]) => name.startsWith("TagSpecification.1.Tag"))
    .map(([, value]) => value.replace(/^20.*Z$/, "TIME"));
  assert.deepEqual(tags, [
    ...["team", "net"],
    ...["node.k8s.amazonaws.com/instance_id", INSTANCE],
    ...["node.k8s.amazonaws.com/createdAt", "TIME"],
    ...["cluster.k8s.amazonaws.com/name", CLUSTER],
  ]);
});

test("with --provision=false pods have what an operator has assigned, and EC2 is asked for nothing", async () => {
  await using node = await SimulatedNode.start();
  const list = await node.byHand("DescribeNetworkInterfaces", {});
  const [eni = ""] = list.all("networkInterfaceId");
  const address = "10.0.1.77";
  await node.byHand("AssignPrivateIpAddresses", {
    NetworkInterfaceId: eni,
    "PrivateIpAddress.1": address,
  });
  node.routes.set("pod0", { ipv4: Address.parse(address) });
  await using coild = node.process([...BARE, "--provision=false"]);
  assert.equal(await coild.add("pod0"), address);
  await assert.rejects(
    coild.add("pod1"),
    /^OutOfBlocksError: .*EC2 is not asked for more$/,
  );
  await coild.remove("pod0");
  assert.deepEqual(await node.changes(), {});
});

test("a cordoned node gets no ENI, until it is not cordoned", async () => {
  await using node = await SimulatedNode.start();
  node.scheduling = { isCordoned: true, maxPods: undefined };
  await using coild = node.process(BARE, { waitMs: 6_000 });
  for (const pod of podsOf(3)) await patiently(coild, pod);
  await assert.rejects(
    coild.add("pod3"),
    /^OutOfBlocksError: .*the node is cordoned, so it gets no ENI/,
  );
  assert.deepEqual(node.layout(), [3]);
  node.scheduling = { isCordoned: false, maxPods: undefined };
  await untilPasses(async () => void await coild.add("pod3"));
  await node.expectLayout(3, 2);
});

test("a node has no more addresses in store than its kubelet runs pods", async () => {
  await using node = await SimulatedNode.start();
  node.scheduling = { isCordoned: false, maxPods: 5 };
  await using coild = node.process(["--vpc-mode=address", "--warm-ips=4"]);
  await coild.add("pod0");
  node.aheadMs = SETTLE_MS;
  await coild.add("pod1");
  await node.expectLayout(3, 2);
  await coild.add("pod2");
  const { AssignPrivateIpAddresses: before } = await node.changes();
  await coild.add("pod3");
  assert.deepEqual(node.layout(), [3, 2]);
  assert.equal((await node.changes())["AssignPrivateIpAddresses"], before);
});

Deno.test("a node gets addresses of the VPC", (t) => runStories(t, TESTS));
