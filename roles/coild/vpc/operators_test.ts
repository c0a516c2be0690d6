// What operators of the account do to a node behind coild's back.
import assert from "node:assert/strict";
import { untilPasses } from "../../../lib/async/testing.ts";
import { Address } from "../../../lib/inet/mod.ts";
import { INSTANCE } from "../../../tests/lab/cloud/testing.ts";
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

const OTHER = "i-0000000000000000b";

/** Ends an ENI's attachment, and returns the ENI's ID. */
async function detachByHand(
  node: SimulatedNode,
  device: number,
): Promise<string> {
  const eni = node.settings?.enis.find((one) => one.device === device);
  assert.ok(eni);
  const { all } = await node.byHand("DescribeNetworkInterfaces", {
    "NetworkInterfaceId.1": eni.id,
  });
  const [AttachmentId = ""] = all("attachmentId");
  await node.byHand("DetachNetworkInterface", { AttachmentId });
  return eni.id;
}

/** How many pods have an address that the node no longer has. */
function quarantinedOf({ ipam }: NodeProcess): number {
  return ipam.stats().reduce((sum, { quarantined }) => sum + quarantined, 0);
}

/** Whether the kernel was asked to have the address. */
function isServed({ settings }: SimulatedNode, address: string): boolean {
  return settings?.enis.some(({ blocks }) =>
    blocks.some((block) => block.contains(Address.parse(address)))
  ) ?? false;
}

const STORIES: Readonly<Record<string, () => Promise<void>>> = {
  "an ENI that an operator has attached where the next one was to be":
    async () => {
      await using node = await SimulatedNode.start();
      await using coild = node.process([...BARE, "--manage-untagged=false"]);
      await coild.add("pod0");
      await node.attachByHand(1);
      for (const pod of ["pod1", "pod2", "pod3"]) await coild.add(pod);
      const devices = node.settings?.enis.map(({ device }) => device);
      assert.deepEqual(devices, [0, 2]);
      await assertNothingLoose(node);
    },

  "an ENI that an operator has attached in the last place": async () => {
    await using node = await SimulatedNode.start({ instances: [NANO] });
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

  "an operator who attaches an ENI again at another device": async () => {
    await using node = await SimulatedNode.start();
    await using coild = node.process(BARE);
    for (const pod of podsOf(5)) await coild.add(pod);
    await node.expectLayout(3, 3);
    const NetworkInterfaceId = await detachByHand(node, 1);
    await node.byHand("AttachNetworkInterface", {
      NetworkInterfaceId,
      InstanceId: INSTANCE,
      DeviceIndex: 2,
    });
    for (const pod of ["pod5", "pod6"]) {
      await later(async () => void await coild.add(pod));
    }
    await later(() => {
      const { enis = [] } = node.settings ?? {};
      const devices = enis.map(({ id, device }) =>
        id === NetworkInterfaceId ? `its own ${device}` : `${device}`
      );
      assert.deepEqual(devices.toSorted(), ["0", "1", "its own 2"]);
    });
    await assertNothingLoose(node);
  },

  "an operator who takes the address of a living pod": async () => {
    await using node = await SimulatedNode.start();
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

  "an operator who fills an ENI": async () => {
    await using node = await SimulatedNode.start();
    await using coild = node.process(BARE);
    await coild.add("pod0");
    await node.expectLayout(2);
    const [eni] = node.settings?.enis ?? [];
    await node.byHand("AssignPrivateIpAddresses", {
      NetworkInterfaceId: eni?.id ?? "",
      SecondaryPrivateIpAddressCount: 1,
    });
    // The call of coild is refused: PrivateIpAddressLimitExceeded.
    await Promise.all(["pod1", "pod2", "pod3"].map((pod) => coild.add(pod)));
    await node.expectLayout(3, 2);
    const calls = await node.cloud.ask.calls(0);
    const refused = calls.flatMap(({ code }) => code ?? []);
    assert.deepEqual(refused, ["PrivateIpAddressLimitExceeded"]);
  },

  "an operator who detaches an ENI under living pods": async () => {
    await using node = await SimulatedNode.start();
    await using coild = node.process(BARE);
    const before: string[] = [];
    for (const pod of podsOf(5)) before.push(await coild.add(pod));
    await node.expectLayout(3, 3);
    await detachByHand(node, 1);
    await later(() => assert.equal(quarantinedOf(coild), 2));
    const names = ["pod5", "pod6"];
    const added = await Promise.all(names.map((pod) => coild.add(pod)));
    assert.ok(!added.some((address) => before.includes(address)));
    // It is used again where pods are short, else deleted.
    await later(() => assertNothingLoose(node));
    assert.ok(added.every((address) => isServed(node, address)));
  },

  "an operator who deletes an ENI under living pods": async () => {
    await using node = await SimulatedNode.start();
    await using coild = node.process(BARE);
    for (const pod of podsOf(5)) await coild.add(pod);
    await node.expectLayout(3, 3);
    await untilPasses(async () => {
      const NetworkInterfaceId = await detachByHand(node, 1);
      // coild may have attached it again by then.
      await node.byHand("DeleteNetworkInterface", { NetworkInterfaceId });
    });
    // Others get its addresses: they are the lowest that are free.
    for (let n = 0; n < 4; n++) await node.createByHand();
    await later(() => assert.equal(quarantinedOf(coild), 2));
    const added = await coild.add("pod5");
    assert.ok(isServed(node, added));
    for (const pod of ["pod3", "pod4"]) await coild.remove(pod);
    assert.equal(quarantinedOf(coild), 0);
  },

  "ENIs of two nodes that are swapped": async () => {
    const instances = [INSTANCE, OTHER].map((id) => (
      { ...NANO, type: "t3.small", id }
    ));
    await using node = await SimulatedNode.start({ instances });
    const neighbour = node.neighbour(OTHER);
    await using coild = node.process(BARE);
    await using other = neighbour.process(BARE);
    const sites = [[node, coild], [neighbour, other]] as const;
    for (const [site, { add }] of sites) {
      for (const pod of podsOf(5)) await add(pod);
      await site.expectLayout(3, 3);
    }
    const [own = "", theirs = ""] = [
      await detachByHand(node, 1),
      await detachByHand(neighbour, 1),
    ];
    for (
      const [InstanceId, NetworkInterfaceId] of [
        [INSTANCE, theirs],
        [OTHER, own],
      ] as const
    ) {
      await node.byHand("AttachNetworkInterface", {
        NetworkInterfaceId,
        InstanceId,
        DeviceIndex: 1,
      });
    }
    for (const [site, process] of sites) {
      await later(() => assert.equal(quarantinedOf(process), 2));
      const eni = site === node ? theirs : own;
      await untilPasses(() => assert.equal(site.settings?.enis[1]?.id, eni));
      const added = await process.add("pod5");
      assert.ok(isServed(site, added));
    }
  },
};

Deno.test("a node goes on after anything that operators do to its ENIs", (t) =>
  runStories(t, new Map(Object.entries(STORIES))));
