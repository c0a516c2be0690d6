import assert from "node:assert/strict";
import { Address } from "../../inet/mod.ts";
import type { KernelPod } from "../base/ports.ts";
import { keyText } from "../../cni/mod.ts";
import { loggedLines } from "../../telemetry/testing.ts";
import { settle } from "../../async/testing.ts";
import { FakeCluster, keyOf, openNode, release, textOf } from "../testing.ts";

const { signal } = new AbortController();

function cluster(): FakeCluster {
  const made = new FakeCluster();
  made.addPool("default", 2, "10.0.0.0/28");
  return made;
}

function podOf(n: number, ipv4: string): KernelPod {
  return { ...keyOf(n), addresses: { ipv4: Address.parse(ipv4) } };
}

function idsOf(records: readonly { readonly containerId: string }[]): string[] {
  return records.map(({ containerId }) => containerId);
}

Deno.test("reconcile() registers a pod of the kernel that is not known", async () => {
  await using node = await openNode(cluster(), { returnDelayMs: 60_000 });
  const { ipam } = node;
  await ipam.allocate(keyOf(1));
  const report = await ipam.reconcile(
    [podOf(1, "10.0.0.0"), podOf(2, "10.0.0.1")],
    { signal },
  );
  assert.deepEqual(idsOf(report.registered), ["c2"]);
  assert.equal(textOf(await ipam.allocate(keyOf(3))), "10.0.0.2");
});

Deno.test("reconcile() lists blocks only when that is due, and returns what it found all the same", async () => {
  const lines = loggedLines();
  await using node = await openNode(cluster(), {
    returnDelayMs: 60_000,
    relistMs: 60_000,
  });
  const { ipam, routes, source, clock } = node;
  await ipam.allocate(keyOf(1));
  const lists = async (pods: readonly KernelPod[]) => {
    const before = source.counts.list;
    await ipam.reconcile(pods, { signal });
    return source.counts.list - before;
  };
  const pods = [podOf(1, "10.0.0.0"), podOf(2, "10.9.9.9")];
  assert.equal(await lists(pods), 0);
  await settle();
  assert.deepEqual(routes.prefixes, ["10.0.0.0/30", "10.9.9.9/32"]);
  assert.ok(
    lines.some((line) => line.includes(`"Found a pod that was not known"`)),
  );
  // Some earlier, some later, so that not all nodes list at once.
  await clock.advance(29_000);
  assert.equal(await lists(pods), 0);
  await clock.advance(62_000);
  assert.equal(await lists(pods), 1);
  assert.equal(await lists(pods), 0);
});

Deno.test("blocks() says which blocks exist and are not usable", async () => {
  const made = cluster();
  await using node = await openNode(made, { returnDelayMs: 60_000 });
  const { ipam } = node;
  await ipam.allocate(keyOf(1));
  const unusable = () =>
    ipam.blocks().filter(({ holds }) => holds.length > 0)
      .map(({ name }) => name);
  assert.deepEqual(unusable(), []);
  made.edit("default-0", { deleting: true });
  ipam.onBlocksChanged(made.of("node1"));
  await settle();
  assert.deepEqual(unusable(), ["default-0"]);
});

Deno.test("reconcile() ends with its caller", async () => {
  await using node = await openNode(cluster());
  const gone = node.ipam.reconcile([], { signal: AbortSignal.abort() });
  await assert.rejects(gone, { name: "AbortError" });
});

Deno.test("list() has how long a state has lasted", async () => {
  await using node = await openNode(cluster());
  const { ipam, clock } = node;
  await clock.advance(1_000);
  await ipam.allocate(keyOf(1));
  await clock.advance(5_000);
  assert.deepEqual(ipam.list().map(({ ageMs }) => ageMs), [5_000]);
});

Deno.test("reconcile() counts an address once that a pod had already when it got another", async () => {
  await using node = await openNode(cluster(), { returnDelayMs: 60_000 });
  const { ipam } = node;
  await ipam.allocate(keyOf(1));
  const pod = podOf(1, "10.0.0.0");
  const ipv6 = Address.parse("fd00::9");
  const addresses = { ...pod.addresses, ipv6 };
  const report = await ipam.reconcile([{ ...pod, addresses }], { signal });
  assert.deepEqual(report.duplicates, []);
  assert.deepEqual(report.registered, []);
  // No block covers the other one.
  assert.deepEqual(idsOf(report.quarantined), ["c1"]);
});

Deno.test("reconcile() frees what the kernel lacks only after two looks and the grace period", async () => {
  await using node = await openNode(cluster(), { returnDelayMs: 600_000 });
  const { ipam, clock } = node;
  await ipam.allocate(keyOf(1));
  const look = async () => {
    const { freed, missing } = await ipam.reconcile([], { signal });
    return [idsOf(freed), idsOf(missing)];
  };
  assert.deepEqual(await look(), [[], ["c1"]]);
  await clock.advance(60_000);
  assert.deepEqual(await look(), [[], ["c1"]], "it is young");
  await clock.advance(240_000);
  assert.deepEqual(await look(), [["c1"], []]);
  assert.deepEqual(ipam.list(), []);

  await ipam.allocate(keyOf(2));
  await clock.advance(600_000);
  assert.deepEqual(await look(), [[], ["c2"]], "one look is no proof");
  await clock.advance(10_000);
  assert.deepEqual(await look(), [[], ["c2"]], "nor are two at a time");
  await ipam.reconcile([podOf(2, "10.0.0.1")], { signal });
  await clock.advance(600_000);
  assert.deepEqual(await look(), [[], ["c2"]], "it had come back");
});

Deno.test("reconcile() leaves a pod alone whose ADD was repeated lately", async () => {
  await using node = await openNode(cluster());
  const { ipam, clock } = node;
  await ipam.allocate(keyOf(1));
  await clock.advance(600_000);
  await ipam.reconcile([], { signal });
  await clock.advance(60_000);
  assert.equal((await ipam.allocate(keyOf(1))).existing, true);
  for (let n = 0; n < 2; n++) {
    const { freed } = await ipam.reconcile([], { signal });
    assert.deepEqual(freed, []);
    await clock.advance(60_000);
  }
});

Deno.test("reconcile() frees nothing of a key that a call is at work on, however long", async () => {
  const busy = new Set<string>();
  await using node = await openNode(cluster(), {
    isBusy: (key) => busy.has(key),
    returnDelayMs: 600_000,
  });
  const { ipam, clock } = node;
  await ipam.allocate(keyOf(1));
  await ipam.reconcile([], { signal });
  busy.add("c1:eth0");
  await clock.advance(600_000);
  for (let n = 0; n < 3; n++) {
    const { freed, missing } = await ipam.reconcile([], { signal });
    assert.deepEqual([idsOf(freed), idsOf(missing)], [[], ["c1"]]);
    await clock.advance(60_000);
  }
  busy.clear();
  const first = await ipam.reconcile([], { signal });
  assert.deepEqual(
    idsOf(first.freed),
    [],
    "the list may be older than the end",
  );
  await clock.advance(60_000);
  const second = await ipam.reconcile([], { signal });
  assert.deepEqual(idsOf(second.freed), ["c1"]);
});

Deno.test("reconcile() does not free by a list that is older than a repeated ADD", async () => {
  await using node = await openNode(cluster(), { returnDelayMs: 600_000 });
  const { ipam, clock } = node;
  await ipam.allocate(keyOf(1));
  await ipam.reconcile([], { signal });
  // The next list is made, and before it is compared, an ADD ends that took long.
  await ipam.allocate(keyOf(1));
  await clock.advance(600_000);
  const { freed } = await ipam.reconcile([], { signal });
  assert.deepEqual(freed, []);
});

Deno.test("reconciler-race (wb#207): a pod that was released since the list was made is not brought back", async () => {
  await using node = await openNode(cluster(), { returnDelayMs: 600_000 });
  const { ipam, clock } = node;
  await ipam.allocate(keyOf(1));
  const before = [podOf(1, "10.0.0.0")];
  await release(ipam, 1);
  const report = await ipam.reconcile(before, { signal });
  assert.deepEqual(report.registered, []);
  // Should the kernel still have it a minute later, it is real.
  await clock.advance(61_000);
  const later = await ipam.reconcile(before, { signal });
  assert.deepEqual(idsOf(later.registered), ["c1"]);
});

Deno.test("reconciler-race (wb#207): an old list does not add the former address to a pod that came again", async () => {
  await using node = await openNode(cluster(), { returnDelayMs: 600_000 });
  const { ipam } = node;
  await ipam.allocate(keyOf(1));
  const before = [podOf(1, "10.0.0.0")];
  await release(ipam, 1);
  assert.equal(textOf(await ipam.allocate(keyOf(1))), "10.0.0.1");
  await ipam.reconcile(before, { signal });
  for (const n of [2, 3, 4]) await ipam.allocate(keyOf(n));
  assert.equal(ipam.blocks().length, 1, "all four addresses can be had");
});

Deno.test("a pod whose kernel address is another than the known one holds both", async () => {
  await using node = await openNode(cluster(), { returnDelayMs: 600_000 });
  const { ipam } = node;
  await ipam.allocate(keyOf(1));
  await ipam.reconcile([podOf(1, "10.0.0.2")], { signal });
  const given = [];
  for (const n of [2, 3]) given.push(textOf(await ipam.allocate(keyOf(n))));
  assert.deepEqual(given, ["10.0.0.3", "10.0.0.1"]);
  await release(ipam, 1);
  assert.equal(ipam.blocks()[0]?.held, 2);
});

Deno.test("an address that two pods have is reported, and free when both have gone", async () => {
  const pods = [podOf(1, "10.0.0.0"), podOf(2, "10.0.0.0")];
  const made = cluster();
  made.allocate("default", "node1");
  await using node = await openNode(made, { pods });
  const { ipam } = node;
  const { duplicates } = await ipam.reconcile(pods, { signal });
  assert.deepEqual(
    duplicates.map(({ address, holders }) => [`${address}`, idsOf(holders)]),
    [["10.0.0.0", ["c1", "c2"]]],
  );
  await release(ipam, 1);
  assert.equal(ipam.blocks()[0]?.held, 1);
  assert.equal(node.source.counts.release, 0);
  const given = [];
  for (const n of [3, 4, 5, 6]) {
    given.push(textOf(await ipam.allocate(keyOf(n))));
  }
  assert.deepEqual(given, ["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4"]);
  await release(ipam, 2);
  assert.equal(textOf(await ipam.allocate(keyOf(7))), "10.0.0.0");
});

Deno.test("an address that two pods have is not free while the first of them has it", async () => {
  const pods = [podOf(1, "10.0.0.0"), podOf(2, "10.0.0.0")];
  const made = cluster();
  made.allocate("default", "node1");
  await using node = await openNode(made, { pods });
  await release(node.ipam, 2);
  assert.equal(node.source.counts.release, 0);
  for (const n of [3, 4, 5, 6]) await node.ipam.allocate(keyOf(n));
  const given = node.ipam.list().map(textOf);
  assert.equal(new Set(given).size, 5);
});

Deno.test("an interface without addresses is not reported while an ADD or DEL works on it", async () => {
  await using node = await openNode(cluster(), { pods: [] });
  await node.ipam.allocate(keyOf(1));
  const pods = [
    { ...keyOf(1), addresses: {} },
    { ...keyOf(2), addresses: {}, husk: true },
    { ...keyOf(3), addresses: {} },
  ];
  const report = await node.ipam.reconcile(pods, { signal });
  assert.deepEqual(idsOf(report.withoutAddress), ["c3"]);
});

Deno.test("an interface without addresses is not reported while its DEL ends, nor when it was listed before that", async () => {
  const busy = new Set<string>();
  await using node = await openNode(cluster(), {
    pods: [],
    isBusy: (key) => busy.has(key),
  });
  const { clock, ipam } = node;
  await ipam.allocate(keyOf(1));
  await release(ipam, 1);
  const listed = [1, 2].map((n) => ({ ...keyOf(n), addresses: {} }));
  busy.add(keyText(keyOf(2)));
  const found = async () =>
    idsOf((await ipam.reconcile(listed, { signal })).withoutAddress);
  assert.deepEqual(await found(), []);
  busy.clear();
  await clock.advance(3_600_000);
  assert.deepEqual(await found(), ["c1", "c2"]);
});

Deno.test("an interface without addresses is reported, and its ADD can be repeated", async () => {
  const half = { ...keyOf(1), addresses: {} };
  await using node = await openNode(cluster(), { pods: [half] });
  const report = await node.ipam.reconcile([half], { signal });
  assert.deepEqual(idsOf(report.withoutAddress), ["c1"]);
  assert.equal(node.ipam.lookup(keyOf(1)), undefined);
  assert.equal((await node.ipam.allocate(keyOf(1))).existing, false);
});

Deno.test("a husk is found as a release that goes on", async () => {
  const made = cluster();
  made.allocate("default", "node1");
  const husk = { ...podOf(1, "10.0.0.0"), husk: true };
  await using node = await openNode(made, { pods: [husk] });
  const { ipam, clock } = node;
  assert.equal(ipam.lookup(keyOf(1))?.state, "releasing");
  assert.equal(textOf(await ipam.allocate(keyOf(2))), "10.0.0.1");
  await clock.advance(300_000);
  const report = await ipam.reconcile([husk, podOf(2, "10.0.0.1")], { signal });
  assert.deepEqual(idsOf(report.stuckReleases), ["c1"]);
  await release(ipam, 1);
  assert.equal(ipam.lookup(keyOf(1)), undefined);
});

Deno.test("text-vs-binary v6 (calico#5044): however it is written, it is the same address", async () => {
  const made = new FakeCluster();
  made.addPool("default", 2, "fd02::ff00/126");
  made.allocate("default", "node1");
  const address = Address.parse("FD02:0:0:0:0:0:0000:FF01");
  const pod = { ...keyOf(1), addresses: { ipv6: address } };
  await using node = await openNode(made, { pods: [pod] });
  assert.equal(node.ipam.lookup(keyOf(1))?.state, "used");
  assert.equal(textOf(await node.ipam.allocate(keyOf(2))), "fd02::ff02");
});

Deno.test("reconcile() does the rest when the blocks cannot be listed", async () => {
  await using node = await openNode(cluster());
  const { ipam, source } = node;
  source.failures.push({ kind: "list", error: new Error("away") });
  const report = await ipam.reconcile([podOf(1, "10.0.0.0")], { signal });
  assert.deepEqual(source.failures, []);
  assert.deepEqual(idsOf(report.registered), ["c1"]);
  assert.deepEqual(idsOf(report.quarantined), ["c1"]);
});
