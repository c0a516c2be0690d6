import assert from "node:assert/strict";
import { Address } from "../../inet/mod.ts";
import { OutOfBlocksError } from "../base/errors.ts";
import { FakeCluster, keyOf, openNode, release, textOf } from "../testing.ts";
import { settle } from "../../async/testing.ts";

/** The cluster of upstream's `pkg/ipam/node_test.go`. */
function upstreamCluster(): FakeCluster {
  const cluster = new FakeCluster();
  cluster.addPool(
    "default",
    1,
    "10.2.0.0/31 fd02::200/127",
    "10.3.0.0/31 fd02::300/127",
  );
  cluster.addPool("v4", 2, "10.4.0.0/29");
  return cluster;
}

Deno.test("NI-1: allocate() ends with its caller's signal when no controller answers", async () => {
  const { ipam, source } = await openNode(upstreamCluster());
  await using _ = ipam;
  source.auto = false;
  const controller = new AbortController();
  const waiting = ipam.allocate(keyOf(1), { signal: controller.signal });
  await settle();
  controller.abort(new DOMException("late", "TimeoutError"));
  await assert.rejects(waiting, { name: "TimeoutError" });
});

Deno.test("NI-2, NI-3, NI-4, NI-5: blocks come one by one, are exported, run out, and a freed pair is found", async () => {
  const { ipam, routes } = await openNode(upstreamCluster());
  await using _ = ipam;
  const first = await ipam.allocate(keyOf(1));
  assert.equal(textOf(first), "10.2.0.0 fd02::200");
  assert.equal(first.block, "default-0");
  assert.equal(ipam.lookup(keyOf(1))?.block, "default-0");
  assert.deepEqual(routes.prefixes, ["10.2.0.0/31", "fd02::200/127"]);

  const second = await ipam.allocate(keyOf(2));
  const third = await ipam.allocate(keyOf(3));
  const fourth = await ipam.allocate(keyOf(4));
  assert.equal(textOf(second), "10.2.0.1 fd02::201");
  assert.equal(textOf(third), "10.3.0.0 fd02::300");
  assert.equal(textOf(fourth), "10.3.0.1 fd02::301");
  assert.equal(routes.prefixes.length, 4);

  await assert.rejects(ipam.allocate(keyOf(5)), OutOfBlocksError);

  await release(ipam, 3);
  assert.equal(textOf(await ipam.allocate(keyOf(6))), textOf(third));
});

Deno.test("NI-6: another node of a used-up pool fails; pool v4 has its own blocks", async () => {
  const cluster = upstreamCluster();
  cluster.allocate("default", "node1");
  cluster.allocate("default", "node1");
  const { ipam, routes } = await openNode(cluster, { node: "node2" });
  await using _ = ipam;
  await assert.rejects(ipam.allocate(keyOf(1)), OutOfBlocksError);
  assert.equal(textOf(await ipam.allocate(keyOf(1, "v4"))), "10.4.0.0");
  assert.deepEqual(routes.prefixes, ["10.4.0.0/30"]);
  assert.equal(textOf(await ipam.allocate(keyOf(2, "v4"))), "10.4.0.1");
  await release(ipam, 1);
  assert.equal(textOf(await ipam.allocate(keyOf(3, "v4"))), "10.4.0.2");
});

Deno.test("NI-7: start() finds the addresses of the kernel, and unused blocks are returned", async () => {
  const cluster = upstreamCluster();
  cluster.allocate("default", "node1");
  cluster.allocate("default", "node1");
  cluster.allocate("v4", "node1");
  const pod = {
    ...keyOf(9),
    addresses: {
      ipv4: Address.parse("10.3.0.0"),
      ipv6: Address.parse("fd02::300"),
    },
  };
  const { ipam, routes } = await openNode(cluster, { pods: [pod] });
  await using _ = ipam;
  assert.deepEqual([...cluster.blocks.keys()], ["default-1"]);
  assert.deepEqual(routes.prefixes, ["10.3.0.0/31", "fd02::300/127"]);
  assert.equal(textOf(await ipam.allocate(keyOf(10))), "10.3.0.1 fd02::301");
  assert.equal(ipam.lookup(keyOf(9))?.state, "used");
});

Deno.test("a pod has an address of each family of its block, of which start() may find one only", async () => {
  const cluster = upstreamCluster();
  cluster.allocate("default", "node1");
  const only = (text: string) => {
    const address = Address.parse(text);
    return { [address.family]: address };
  };
  const { ipam, source } = await openNode(cluster, {
    pods: [
      { ...keyOf(1), addresses: only("10.2.0.1") },
      // Of no block: nothing tells what else it has.
      { ...keyOf(2), addresses: only("10.99.0.1") },
      { ...keyOf(3, "v4"), addresses: only("fd02::200") },
    ],
  });
  await using _ = ipam;
  const whole = await ipam.allocate(keyOf(1));
  assert.equal(textOf(whole), "10.2.0.1 fd02::201");
  const known = [1, 2, 3].map((n) => ipam.lookup(keyOf(n)));
  assert.deepEqual(
    known.map((record) => [record && textOf(record), record?.state]),
    [
      ["10.2.0.1 fd02::201", "used"],
      ["10.99.0.1", "quarantined"],
      ["fd02::200", "used"],
    ],
  );
  // Also where the block comes after the pod.
  cluster.allocate("default", "node1");
  const pod = { ...keyOf(4), addresses: only("fd02::301") };
  const { signal } = new AbortController();
  await ipam.reconcile([pod], { signal });
  assert.equal(source.counts.list, 2);
  const later = ipam.lookup(keyOf(4));
  assert.equal(later && textOf(later), "10.3.0.1 fd02::301");
});

Deno.test("NI-8: a reserved block is not used, but exported and kept", async () => {
  const cluster = upstreamCluster();
  cluster.add({ pool: "default", index: 0, node: "node1", reserved: true });
  const { ipam, routes } = await openNode(cluster);
  await using _ = ipam;
  assert.equal(textOf(await ipam.allocate(keyOf(1))), "10.3.0.0 fd02::300");
  assert.equal(cluster.blocks.size, 2);
  assert.ok(routes.prefixes.includes("10.2.0.0/31"));
});
