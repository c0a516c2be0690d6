// What EC2 and the metadata service do to a node.
import assert from "node:assert/strict";
import { untilPasses } from "../../../lib/async/testing.ts";
import type { Prefix } from "../../../lib/inet/mod.ts";
import type { AllocationRecord } from "../../../lib/ipam/mod.ts";
import { VpcHostProblem } from "../../../lib/vpc/mod.ts";
import { GROUP, ROLE_KEYS, SUBNET } from "../../../tests/lab/cloud/testing.ts";
import {
  assertNothingLoose,
  BARE,
  later,
  NANO,
  type NodeProcess,
  podsOf,
  runStories,
  SimulatedNode,
} from "../vpc/testing.ts";
import { CallsRecord } from "./calls_record.ts";
import { findingOf } from "./findings.ts";

/** Longer than a subnet without room is left alone. */
const PAUSE_MS = 190_000;
/** Longer than an ENI stays attached at least. */
const ATTACHED_MS = 70_000;
/** Longer than the metadata may lack an ENI. */
const UNSEEN_MS = 130_000;

/** How often something was done to a call on purpose. */
async function faultsOf({ cloud }: SimulatedNode): Promise<number> {
  const calls = await cloud.ask.calls(0);
  return calls.filter(({ fault }) => fault !== undefined).length;
}

/** Whether a pod's address is one of an ENI's. */
function isWithin(
  blocks: readonly Prefix[],
  { addresses: { ipv4 } }: AllocationRecord,
): boolean {
  return ipv4 !== undefined && blocks.some((block) => block.contains(ipv4));
}

/** A process whose calls are recorded. */
function recorded(
  node: SimulatedNode,
  options: { readonly cooldownMs?: number } = {},
): [NodeProcess, CallsRecord] {
  const calls = new CallsRecord();
  const onAttempt = calls.attempted.bind(calls);
  const all = { ...options, waitMs: 6_000, onAttempt };
  return [node.process(BARE, all), calls];
}

async function refusalOf(
  [{ add, supply }, calls]: [NodeProcess, CallsRecord],
  pod: string,
): Promise<string> {
  const error = await add(pod).then(() => undefined, (err) => err);
  const { view, lastRefusal } = supply;
  const { troubles } = calls;
  const finding = findingOf(error, { view, lastRefusal, troubles });
  return finding?.text ?? String(error);
}

const STORIES: Readonly<Record<string, () => Promise<void>>> = {
  "an account that allows one call of a kind each second": async () => {
    await using node = await SimulatedNode.start();
    const grows = ["Describe*", "Assign*", "Create*", "Attach*", "Modify*"];
    const shrinks = ["Unassign*", "Detach*", "Delete*"];
    for (const call of [...grows, ...shrinks]) {
      const rate = { perSecond: 1, burst: 1 };
      await node.cloud.ask.fault({ call, kind: "throttle", ...rate });
    }
    await using coild = node.process(BARE, { cooldownMs: 100 });
    await later(async () => {
      await Promise.all(podsOf(4).map((pod) => coild.add(pod)));
    });
    assert.ok(await faultsOf(node) > 0);
    for (const pod of podsOf(4)) await coild.remove(pod);
    node.aheadMs = ATTACHED_MS;
    await later(() => node.expectLayout(1));
    await later(() => assertNothingLoose(node));
  },

  "answers that are cut, and errors of the server": async () => {
    await using node = await SimulatedNode.start();
    const { ask } = node.cloud;
    const code = "InternalError";
    const call = "AssignPrivateIpAddresses";
    await ask.fault({ call, kind: "half", times: 1 });
    await using coild = node.process(BARE);
    for (const pod of podsOf(2)) await coild.add(pod);
    const create = "CreateNetworkInterface";
    await ask.fault({ call: create, kind: "error", code, times: 2 });
    await ask.fault({ call: create, kind: "half", times: 1 });
    await Promise.all(["pod2", "pod3"].map((pod) => coild.add(pod)));
    await assertNothingLoose(node);
    assert.equal(node.layout().length, 2);
    assert.equal(await faultsOf(node), 4);
  },

  "a right that is missing": async () => {
    await using node = await SimulatedNode.start();
    const process = recorded(node);
    await using coild = process[0];
    for (const pod of podsOf(2)) await coild.add(pod);
    assert.equal(coild.supply.allocations.length, 2);
    await node.expectLayout(3);
    const call = "CreateNetworkInterface";
    const code = "UnauthorizedOperation";
    await node.cloud.ask.fault({ call, kind: "error", code });
    await coild.add("pod2");
    assert.match(
      await refusalOf(process, "pod3"),
      /^EC2 denied calls; allow ec2:CreateNetworkInterface in the policy of the node's role$/,
    );
    assert.notEqual(coild.supply.lastRefusal, undefined);
    await node.cloud.ask.clearFaults();
    await later(async () => void await coild.add("pod3"));
    await untilPasses(() => assert.equal(coild.supply.lastRefusal, undefined));
  },

  "a subnet that is full": async () => {
    const subnet = { id: SUBNET, zone: "eu-test-1a", cidr: "10.0.1.0/28" };
    await using node = await SimulatedNode.start({ subnets: [subnet] });
    await node.byHand("CreateNetworkInterface", {
      SubnetId: SUBNET,
      "SecurityGroupId.1": GROUP,
      SecondaryPrivateIpAddressCount: 7,
    });
    const process = recorded(node);
    await using coild = process[0];
    for (const pod of podsOf(2)) await coild.add(pod);
    assert.equal(
      await refusalOf(process, "pod2"),
      `subnet ${SUBNET} of the node's ENIs has no free address left; free some, or move the node to a larger subnet`,
    );
    const created = await node.byHand("DescribeNetworkInterfaces", {
      "Filter.1.Name": "status",
      "Filter.1.Value.1": "available",
    });
    const [NetworkInterfaceId = ""] = created.all("networkInterfaceId");
    await node.byHand("DeleteNetworkInterface", { NetworkInterfaceId });
    node.aheadMs = PAUSE_MS;
    await later(async () => void await coild.add("pod2"));
  },

  "metadata that are empty, missing or refused": async () => {
    await using node = await SimulatedNode.start();
    const { ask } = node.cloud;
    await using coild = node.process(BARE);
    await coild.add("pod0");
    const macs = "IMDS GET /latest/meta-data/network/interfaces/macs/";
    await ask.fault({ call: macs, kind: "empty", times: 2 });
    await ask.fault({ call: `${macs}*`, kind: "error", code: "404", times: 3 });
    await ask.forgetTokens();
    for (const pod of ["pod1", "pod2", "pod3"]) await coild.add(pod);
    await node.expectLayout(3, 2);
    assert.equal(await faultsOf(node), 5);
    assert.equal(node.fewestEnis, 1, "nothing was taken from the kernel");
  },

  "networks that the VPC gets and loses while pods run": async () => {
    await using node = await SimulatedNode.start();
    await using coild = node.process(BARE);
    await coild.add("pod0");
    for (
      const [pod, cidrs] of [
        ["pod1", ["10.0.0.0/16", "10.9.0.0/16"]],
        ["pod2", ["10.0.0.0/16"]],
      ] as const
    ) {
      await node.cloud.ask.setVpc({ cidrs });
      await coild.add(pod);
      await untilPasses(() =>
        assert.deepEqual(node.settings?.vpcCidrs.map(String), cidrs)
      );
    }
  },

  "a detachment that does not end": async () => {
    await using node = await SimulatedNode.start({ instances: [NANO] });
    const process = recorded(node, { cooldownMs: 100 });
    await using coild = process[0];
    for (const pod of podsOf(2)) await coild.add(pod);
    await node.expectLayout(1, 1);
    const detachMs = 20_000;
    await node.cloud.ask.setPace({ detachMs });
    // The second ENI's first, so that its address is the one that goes.
    for (const pod of ["pod1", "pod0"]) await coild.remove(pod);
    node.aheadMs = ATTACHED_MS;
    await untilPasses(async () => {
      const { DetachNetworkInterface } = await node.changes();
      assert.equal(DetachNetworkInterface, 1);
    });
    await coild.add("pod2");
    const before = await node.changes();
    // The place is taken until then.
    assert.match(await refusalOf(process, "pod3"), /^the node's ENIs are full/);
    assert.deepEqual(await node.changes(), before);
    await later(async () => void await coild.add("pod3"));
    const { CreateNetworkInterface } = await node.changes();
    assert.equal(CreateNetworkInterface, 1, "the same ENI");
    await assertNothingLoose(node);
  },

  "a process that ends between Detach and Delete": async () => {
    await using node = await SimulatedNode.start({ instances: [NANO] });
    const first = node.process(BARE, { cooldownMs: 100 });
    for (const pod of podsOf(2)) await first.add(pod);
    await node.expectLayout(1, 1);
    // The process ends long before, on a busy machine, too.
    await node.cloud.ask.setPace({ detachMs: 10_000 });
    // The second ENI's first, so that its address is the one that goes.
    for (const pod of ["pod1", "pod0"]) await first.remove(pod);
    node.aheadMs = ATTACHED_MS;
    await untilPasses(async () => {
      const { DetachNetworkInterface } = await node.changes();
      assert.equal(DetachNetworkInterface, 1);
    });
    await first[Symbol.asyncDispose]();
    const before = await node.changes();
    await untilPasses(() => assert.rejects(assertNothingLoose(node)));
    await using second = node.process(BARE, { cooldownMs: 100 });
    await second.ready;
    await later(async () => {
      assert.deepEqual(await node.changes(), {
        ...before,
        DeleteNetworkInterface: 1,
      });
    });
    await assertNothingLoose(node);
  },

  "an ENI that is in use when it is to be deleted": async () => {
    await using node = await SimulatedNode.start({ instances: [NANO] });
    await using coild = node.process(BARE, { cooldownMs: 100 });
    for (const pod of podsOf(2)) await coild.add(pod);
    await node.expectLayout(1, 1);
    const call = "DeleteNetworkInterface";
    const code = "InvalidParameterValue";
    await node.cloud.ask.fault({ call, kind: "error", code, times: 2 });
    // The second ENI's first, so that its address is the one that goes.
    for (const pod of ["pod1", "pod0"]) await coild.remove(pod);
    node.aheadMs = ATTACHED_MS;
    await later(async () => {
      const { DeleteNetworkInterface } = await node.changes();
      assert.equal(DeleteNetworkInterface, 3);
    });
    await assertNothingLoose(node);
  },

  "an ENI that the metadata do not show": async () => {
    await using node = await SimulatedNode.start();
    await using coild = node.process(BARE);
    for (const pod of podsOf(2)) await coild.add(pod);
    await node.expectLayout(3);
    await node.cloud.ask.setPace({ imdsLagMs: 600_000 });
    const waiting = ["pod2", "pod3"].map((pod) => coild.add(pod));
    await untilPasses(async () => {
      const { ModifyNetworkInterfaceAttribute } = await node.changes();
      assert.equal(ModifyNetworkInterfaceAttribute, 1, "attached");
    });
    node.aheadMs = UNSEEN_MS;
    await untilPasses(async () => {
      const { DeleteNetworkInterface } = await node.changes();
      assert.equal(DeleteNetworkInterface, 1, "replaced");
    });
    await node.cloud.ask.setPace({ imdsLagMs: 0 });
    await Promise.all(waiting);
    await assertNothingLoose(node);
    const { CreateNetworkInterface } = await node.changes();
    assert.equal(CreateNetworkInterface, 2);
  },

  "pages of a list between which ENIs come and change": async () => {
    await using node = await SimulatedNode.start();
    await node.cloud.ask.setPace({ pageSize: 1, answerMs: 150 });
    await using coild = node.process(BARE);
    const adding = podsOf(9).map((pod) => coild.add(pod));
    assert.equal(new Set(await Promise.all(adding)).size, 9);
    await untilPasses(async () => {
      const calls = await node.cloud.ask.calls(0);
      assert.ok(calls.some(({ parameters }) => parameters["NextToken"]));
    });
    await node.expectLayout(3, 3, 3);
    await assertNothingLoose(node);
    const { CreateNetworkInterface } = await node.changes();
    assert.equal(CreateNetworkInterface, 2);
  },

  "targets that are lower after a restart": async () => {
    await using node = await SimulatedNode.start();
    const more = ["--vpc-mode=address", "--warm-ips=7"];
    const first = node.process(more);
    await first.add("pod0");
    // Of the two that are created at once either may be attached first.
    await untilPasses(() =>
      assert.deepEqual(node.layout().toSorted(), [2, 3, 3])
    );
    await first[Symbol.asyncDispose]();
    await using second = node.process(BARE);
    await second.ready;
    node.aheadMs = ATTACHED_MS;
    await later(() => node.expectLayout(2));
    await later(() => assertNothingLoose(node));
    assert.equal(second.ipam.stats()[0]?.used, 1);
  },

  "limits that are lower after a restart": async () => {
    await using node = await SimulatedNode.start();
    const first = node.process(BARE);
    for (const pod of podsOf(5)) await first.add(pod);
    await node.expectLayout(3, 3);
    await first[Symbol.asyncDispose]();
    const options = { cooldownMs: 100, waitMs: 15_000 };
    await using second = node.process([...BARE, "--max-enis=1"], options);
    await second.ready;
    assert.equal(second.supply.allocations.length, 5);
    await second.add("pod5");
    const before = await node.changes();
    await assert.rejects(second.add("pod6"), /^OutOfBlocksError/);
    assert.deepEqual(await node.changes(), before);
    const ofFirst = node.settings?.enis[0]?.blocks ?? [];
    const [staying, ...rest] = second.supply.allocations.toSorted((a, b) =>
      Number(isWithin(ofFirst, b)) - Number(isWithin(ofFirst, a))
    );
    assert.ok(staying);
    for (const { containerId } of rest) await second.remove(containerId);
    node.aheadMs = ATTACHED_MS;
    await later(() => node.expectLayout(2));
    await later(() => assertNothingLoose(node));
    const left = second.supply.allocations.map(({ containerId }) =>
      containerId
    );
    assert.deepEqual(left, [staying.containerId]);
  },

  "a kernel that is slow, and never as it should be": async () => {
    await using node = await SimulatedNode.start();
    const first = node.process(["--vpc-mode=address", "--warm-ips=2"]);
    await first.add("pod0");
    await node.expectLayout(3);
    await first[Symbol.asyncDispose]();
    // For 10 s nothing of an empty block is given: the first process may have given it back.
    node.ensureMs = 2_500;
    node.problems = [new VpcHostProblem("Cannot be sure")];
    await using second = node.process([...BARE, "--provision=false"]);
    await second.add("pod1");
  },

  "200 pods that end at once, with 32 addresses": async () => {
    const cooldownMs = 1_000;
    await using node = await SimulatedNode.start({ instances: [NANO] });
    await using coild = node.process(["--vpc-mode=prefix"], { cooldownMs });
    const freed = new Map<string, number>();
    for (const pod of podsOf(200)) {
      let address = "";
      await later(async () => void (address = await coild.add(pod)));
      const restMs = performance.now() - (freed.get(address) ?? -Infinity);
      assert.ok(restMs >= cooldownMs, `${address} rested ${restMs} ms`);
      // It rests from here on.
      freed.set(address, performance.now());
      await coild.remove(pod);
    }
    assert.equal(freed.size, 32);
    await node.expectLayout(1, 1);
  },

  "keys that are replaced": async () => {
    await using node = await SimulatedNode.start();
    await using coild = node.process(BARE);
    await coild.add("pod0");
    await node.expectLayout(2);
    const keys = { ...ROLE_KEYS, accessKeyId: "ASIALATER" };
    await node.cloud.ask.setCredentials([keys]);
    for (const pod of ["pod1", "pod2", "pod3"]) {
      await later(async () => void await coild.add(pod));
    }
    await node.expectLayout(3, 2);
  },

  "lists that are late": async () => {
    await using node = await SimulatedNode.start();
    await node.cloud.ask.setPace({ describeLagMs: 60_000, imdsLagMs: 1_000 });
    await using coild = node.process(BARE);
    const addresses = await Promise.all(podsOf(9).map((pod) => coild.add(pod)));
    assert.equal(new Set(addresses).size, 9);
    const looks = async () =>
      (await node.cloud.ask.calls(0))
        .filter(({ call }) => call === "DescribeNetworkInterfaces").length;
    const before = await node.changes();
    assert.equal(before["CreateNetworkInterface"], 2);
    // Lists usually show by then what was done.
    node.aheadMs = 20_000;
    await coild.remove("pod0");
    const seen = await looks();
    await untilPasses(async () => assert.ok(await looks() > seen + 1));
    assert.deepEqual(await node.changes(), before);
  },
};

Deno.test("a node goes on through all faults of EC2 and the metadata service", (t) =>
  runStories(t, new Map(Object.entries(STORIES))));
