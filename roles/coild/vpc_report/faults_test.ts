// What EC2, the metadata service, operators and other programs do to a node. Each
// story has a cloud of its own; they wait for most of their time, so they run at once.
import assert from "node:assert/strict";
import { untilPasses } from "../../../lib/async/testing.ts";
import {
  GROUP,
  INSTANCE,
  ROLE_KEYS,
  SUBNET,
} from "../../../tests/lab/cloud/testing.ts";
import { type NodeProcess, tellAll, VpcNode } from "../vpc/testing.ts";
import { CallsRecord } from "./calls_record.ts";
import { findingOf } from "./findings.ts";

/** As few addresses as pods need. */
const BARE = ["--vpc-mode=address", "--warm-ips=1", "--min-ips=1"];

const nano = {
  id: INSTANCE,
  type: "t3.nano",
  subnet: SUBNET,
  securityGroups: [GROUP],
};

function podsOf(count: number): string[] {
  return Array.from({ length: count }, (_, n) => `pod${n}`);
}

/** Waits for what may come only 10 s after the start. */
async function later(check: () => void | Promise<void>): Promise<void> {
  await untilPasses(check).catch(() => untilPasses(check));
}

/** Fails while EC2 has an ENI that no instance has. */
async function assertNothingLoose(node: VpcNode): Promise<void> {
  const { all } = await node.byHand("DescribeNetworkInterfaces", {
    "Filter.1.Name": "status",
    "Filter.1.Value.1": "available",
  });
  assert.deepEqual(all("networkInterfaceId"), []);
}

/** How often something was done to a call on purpose. */
async function faultsOf({ cloud }: VpcNode): Promise<number> {
  const calls = await cloud.ask.calls(0);
  return calls.filter(({ fault }) => fault !== undefined).length;
}

/** A process whose calls are recorded. */
function recorded(node: VpcNode): [NodeProcess, CallsRecord] {
  const calls = new CallsRecord();
  const onAttempt = calls.attempted.bind(calls);
  return [node.process(BARE, { waitMs: 6_000, onAttempt }), calls];
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
  "answers that are cut, and errors of the server": async () => {
    await using node = await VpcNode.start();
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
    await using node = await VpcNode.start();
    const process = recorded(node);
    await using coild = process[0];
    for (const pod of podsOf(2)) await coild.add(pod);
    await node.expectLayout(3);
    const call = "CreateNetworkInterface";
    const code = "UnauthorizedOperation";
    await node.cloud.ask.fault({ call, kind: "error", code });
    await coild.add("pod2");
    assert.match(
      await refusalOf(process, "pod3"),
      /^EC2 refused calls for want of rights; allow ec2:CreateNetworkInterface in the policy of the node's role$/,
    );
    await node.cloud.ask.clearFaults();
    await later(async () => void await coild.add("pod3"));
  },

  "a subnet that is full": async () => {
    const subnet = { id: SUBNET, zone: "eu-test-1a", cidr: "10.0.1.0/28" };
    await using node = await VpcNode.start({ subnets: [subnet] });
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
  },

  "an ENI that an operator has attached where the next one was to be":
    async () => {
      await using node = await VpcNode.start();
      await using coild = node.process([...BARE, "--manage-untagged=false"]);
      await coild.add("pod0");
      await node.attachByHand(1);
      for (const pod of ["pod1", "pod2", "pod3"]) await coild.add(pod);
      const devices = node.settings?.enis.map(({ device }) => device);
      assert.deepEqual(devices, [0, 2]);
      await assertNothingLoose(node);
    },

  "an ENI that an operator has attached in the last place": async () => {
    await using node = await VpcNode.start({ instances: [nano] });
    await using coild = node.process(BARE);
    await coild.ready;
    await node.expectLayout(1);
    const eni = await node.attachByHand(1);
    await Promise.all(podsOf(2).map((pod) => coild.add(pod)));
    await node.expectLayout(1, 1);
    assert.equal(node.settings?.enis[1]?.id, eni, "it gives addresses");
    await later(async () => {
      const { DeleteNetworkInterface } = await node.changes();
      assert.equal(DeleteNetworkInterface, 1, "its own one has no place");
      await assertNothingLoose(node);
    });
  },

  "an operator who takes the address of a living pod": async () => {
    await using node = await VpcNode.start();
    await using coild = node.process(BARE);
    const taken = await coild.add("pod0");
    await node.expectLayout(2);
    const [eni] = node.settings?.enis ?? [];
    await node.byHand("UnassignPrivateIpAddresses", {
      NetworkInterfaceId: eni?.id ?? "",
      "PrivateIpAddress.1": taken,
    });
    // Another ENI gets it: it is the lowest one that is free.
    await node.createByHand();
    const others = ["pod1", "pod2", "pod3"].map((pod) => coild.add(pod));
    assert.ok(!(await Promise.all(others)).includes(taken));
    await later(() => {
      const [pool] = coild.ipam.stats();
      assert.equal(pool?.quarantined, 1);
    });
    await coild.remove("pod0");
    assert.equal(coild.ipam.stats()[0]?.quarantined, 0);
  },

  "metadata that are empty, missing or refused": async () => {
    await using node = await VpcNode.start();
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

  "a network that the VPC gets while pods run": async () => {
    await using node = await VpcNode.start();
    await using coild = node.process(BARE);
    await coild.add("pod0");
    const cidrs = ["10.0.0.0/16", "10.9.0.0/16"];
    await node.cloud.ask.setVpc({ cidrs });
    await coild.add("pod1");
    await untilPasses(() =>
      assert.deepEqual(node.settings?.vpcCidrs.map(String), cidrs)
    );
  },

  "150 pods that end at once, with 32 addresses": async () => {
    const cooldownMs = 1_000;
    await using node = await VpcNode.start({ instances: [nano] });
    await using coild = node.process(["--vpc-mode=prefix"], { cooldownMs });
    const freed = new Map<string, number>();
    for (const pod of podsOf(150)) {
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

  "an account that allows one call of a kind each second": async () => {
    await using node = await VpcNode.start();
    for (const call of ["Describe*", "Assign*", "Create*", "Attach*"]) {
      const rate = { perSecond: 1, burst: 1 };
      await node.cloud.ask.fault({ call, kind: "throttle", ...rate });
    }
    await using coild = node.process(BARE);
    await later(async () => {
      await Promise.all(podsOf(4).map((pod) => coild.add(pod)));
    });
    assert.ok(await faultsOf(node) > 0);
  },

  "keys that are replaced": async () => {
    await using node = await VpcNode.start();
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
    await using node = await VpcNode.start();
    await node.cloud.ask.setPace({ describeLagMs: 3_000, imdsLagMs: 1_000 });
    await using coild = node.process(BARE);
    const addresses = await Promise.all(podsOf(9).map((pod) => coild.add(pod)));
    assert.equal(new Set(addresses).size, 9);
    const { CreateNetworkInterface } = await node.changes();
    assert.equal(CreateNetworkInterface, 2);
  },
};

Deno.test("a node goes on whatever EC2, the metadata service and operators do", (t) =>
  tellAll(t, new Map(Object.entries(STORIES))));
