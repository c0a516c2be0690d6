/** Which blocks a node keeps, fetches and returns, and what happens when others change them. */
import assert from "node:assert/strict";
import { Address, type Prefix, valuesOf } from "../../inet/mod.ts";
import {
  BlockTimeoutError,
  OutOfBlocksError,
  QuarantinedError,
} from "../base/errors.ts";
import type { KernelPod } from "../base/ports.ts";
import {
  dual,
  FakeBlockSource,
  FakeCluster,
  type FakeNode,
  FakeRoutes,
  keyOf,
  openNode,
  release,
  textOf,
} from "../testing.ts";
import { FakeClock, settle } from "../../async/testing.ts";
import { loggedLines } from "../../telemetry/testing.ts";
import { NodeIpam } from "./ipam.ts";
import { waterStock } from "../blocks/stock.ts";

const { signal } = new AbortController();

function clusterOf(bits: number, ...subnets: string[]): FakeCluster {
  const cluster = new FakeCluster();
  cluster.addPool("default", bits, ...subnets);
  return cluster;
}

function podOf(n: number, ipv4: string): KernelPod {
  return { ...keyOf(n), addresses: { ipv4: Address.parse(ipv4) } };
}

async function fill({ ipam }: FakeNode, from: number, to: number) {
  for (let i = from; i < to; i++) await ipam.allocate(keyOf(i));
  await settle();
}

function namesOf(node: FakeNode): string[] {
  return node.ipam.blocks().map((block) => block.name).sort();
}

/** Holds by block. */
function holdsOf(node: FakeNode): Record<string, readonly string[]> {
  return Object.fromEntries(node.ipam.blocks().map((b) => [b.name, b.holds]));
}

function addressesOf(node: FakeNode): string[] {
  return node.ipam.list().map(textOf).sort();
}

/** Makes a call whose first request is carried out, and not answered yet. */
async function withheld<T>(source: FakeBlockSource, call: () => Promise<T>) {
  source.auto = false;
  const result = call();
  await settle();
  const [request] = source.pending;
  request?.perform();
  return [result, request] as const;
}

Deno.test("the next block is fetched before it is needed, and not twice", async () => {
  const cluster = clusterOf(5, "10.0.0.0/24");
  await using node = await openNode(cluster);
  await fill(node, 0, 24);
  assert.deepEqual(namesOf(node), ["default-0"]);
  await fill(node, 24, 25);
  assert.deepEqual(namesOf(node), ["default-0", "default-1"]);
  const { request } = node.source.counts;
  await fill(node, 25, 33);
  assert.equal(node.source.counts.request, request, "no ADD had to wait");
  assert.equal(textOf(await node.ipam.allocate(keyOf(33))), "10.0.0.33");
});

Deno.test("the look that follows an allocation is put off as its caller wants, once for many", async () => {
  const looks: (() => void)[] = [];
  const cluster = clusterOf(5, "10.0.0.0/24");
  await using node = await openNode(cluster, {
    putOff: (look) => void looks.push(look),
  });
  await fill(node, 0, 25);
  await settle();
  assert.deepEqual(namesOf(node), ["default-0"]);
  assert.equal(looks.length, 1);
  looks[0]?.();
  await settle();
  assert.deepEqual(namesOf(node), ["default-0", "default-1"]);
  await fill(node, 25, 26);
  assert.equal(looks.length, 2);
});

Deno.test("how much is kept in store, and how long an ADD may wait, is the user's to say", async () => {
  const cluster = clusterOf(5, "10.0.0.0/24");
  await using node = await openNode(cluster, {
    stock: waterStock({ low: () => 0, high: () => 0 }),
    requestTimeoutMs: 2_000,
  });
  await fill(node, 0, 32);
  assert.deepEqual(namesOf(node), ["default-0"]);
  node.source.auto = false;
  const waiting = node.ipam.allocate(keyOf(32));
  const refused = assert.rejects(waiting, BlockTimeoutError);
  await node.clock.advance(2_000);
  await refused;
});

Deno.test("a block that is fetched ahead and refused is asked for again later, quietly", async () => {
  const cluster = clusterOf(5, "10.0.0.0/27");
  const lines = loggedLines();
  await using node = await openNode(cluster);
  await fill(node, 0, 30);
  assert.equal(node.source.counts.request, 2);
  await node.clock.advance(600_000);
  const { request } = node.source.counts;
  assert.ok(request > 3 && request < 40, `${request} requests in 10 minutes`);
  assert.deepEqual(
    lines.filter((line) => /"level":"(warn|error)"/.test(line)),
    [],
  );
});

Deno.test("blocks of single addresses are neither fetched ahead nor kept", async () => {
  const cluster = clusterOf(0, "10.0.0.0/28");
  await using node = await openNode(cluster);
  await fill(node, 0, 3);
  assert.equal(cluster.of("node1").length, 3);
  await release(node.ipam, 1);
  assert.deepEqual(namesOf(node), ["default-0", "default-2"]);
});

Deno.test("empty blocks go back, highest first, as long as enough is left in store", async () => {
  const cluster = clusterOf(5, "10.0.0.0/24");
  await using node = await openNode(cluster);
  await fill(node, 0, 70);
  assert.equal(namesOf(node).length, 3);
  for (let i = 69; i >= 30; i--) await release(node.ipam, i);
  // 30 used: two free in the first block are less than the mark, so one empty block stays.
  assert.deepEqual(namesOf(node), ["default-0", "default-1"]);
  for (let i = 16; i < 30; i++) await release(node.ipam, i);
  assert.deepEqual(namesOf(node), ["default-0"]);
  const { request } = node.source.counts;
  await fill(node, 16, 24);
  assert.equal(
    node.source.counts.request,
    request,
    "no loop of fetch and return",
  );
});

Deno.test("an empty block goes back after the delay, and a pod that comes sooner keeps it", async () => {
  const cluster = clusterOf(2, "10.0.0.0/28");
  let looks = 0;
  await using node = await openNode(cluster, {
    returnDelayMs: 30_000,
    jitterOf: () => (looks++, 0.5),
  });
  await fill(node, 0, 1);
  await release(node.ipam, 0);
  await node.clock.advance(29_000);
  await fill(node, 0, 1);
  await release(node.ipam, 0);
  await node.clock.advance(29_999);
  assert.equal(node.source.counts.release, 0);
  await node.clock.advance(1);
  assert.deepEqual([...cluster.blocks.keys()], []);
  assert.equal(node.clock.pending, 0, "nothing is left to do");
  assert.deepEqual(node.ipam.stats(), []);
  assert.ok(looks < 20, `${looks} looks in a minute`);
});

for (const jitter of [0, 1]) {
  Deno.test(`an empty block of jitter ${jitter} goes back after ${0.5 + jitter} times the delay`, async () => {
    const cluster = clusterOf(0, "10.0.0.0/31");
    await using node = await openNode(cluster, {
      returnDelayMs: 30_000,
      jitterOf: () => jitter,
    });
    const { ipam, clock } = node;
    await ipam.allocate(keyOf(1));
    await release(ipam, 1);
    const delayMs = 30_000 * (0.5 + jitter);
    await clock.advance(delayMs - 2_000);
    assert.equal(cluster.blocks.size, 1);
    await clock.advance(4_000);
    assert.equal(cluster.blocks.size, 0);
  });
}

Deno.test("an empty block of a pool that is low goes back soon, one of a pool that has room again does not", async () => {
  const cluster = clusterOf(0, "10.0.0.0/30");
  await using node = await openNode(cluster, { returnDelayMs: 600_000 });
  const { ipam, clock } = node;
  const pool = cluster.pools.get("default");
  assert.ok(pool);
  await fill(node, 0, 2);
  pool.state = "low";
  ipam.onPoolsChanged();
  await release(ipam, 0);
  await clock.advance(20_000);
  assert.equal(cluster.blocks.size, 2);
  await clock.advance(11_000);
  assert.equal(cluster.blocks.size, 1);

  pool.state = "ready";
  ipam.onPoolsChanged();
  await release(ipam, 1);
  await clock.advance(300_000);
  assert.equal(cluster.blocks.size, 1);
  // What was low once is not low for ever.
  pool.state = "low";
  ipam.onPoolsChanged();
  await clock.advance(10_000);
  assert.equal(cluster.blocks.size, 1);
  await clock.advance(21_000);
  assert.equal(cluster.blocks.size, 0);
});

Deno.test("an empty block of an ample pool stays longer, until the pool has been no longer ample for a part of the usual delay", async () => {
  const cluster = clusterOf(0, "10.0.0.0/30");
  await using node = await openNode(cluster, {
    returnDelayMs: 600_000,
    ampleReturnDelayMs: 2_400_000,
  });
  const { ipam, clock } = node;
  const pool = cluster.pools.get("default");
  assert.ok(pool);
  pool.state = "ample";
  await fill(node, 0, 2);
  await release(ipam, 0);
  await clock.advance(2_399_999);
  assert.equal(cluster.blocks.size, 2);
  await clock.advance(1);
  assert.equal(cluster.blocks.size, 1);

  await release(ipam, 1);
  await clock.advance(1_200_000);
  pool.state = "ready";
  ipam.onPoolsChanged();
  await clock.advance(299_999);
  assert.equal(cluster.blocks.size, 1);
  await clock.advance(1);
  assert.equal(cluster.blocks.size, 0);
});

Deno.test("restoreExport() writes the table again, and returns whether it could", async () => {
  const cluster = clusterOf(2, "10.0.0.0/28");
  await using node = await openNode(cluster);
  const { ipam, routes } = node;
  await fill(node, 0, 1);
  routes.prefixes = []; // somebody has taken it away
  assert.equal(await ipam.restoreExport({ signal }), true);
  assert.deepEqual(routes.prefixes, ["10.0.0.0/30"]);
  routes.failures.push(new Error("EBUSY"));
  assert.equal(await ipam.restoreExport({ signal }), false);
});

Deno.test("the route of a block is withdrawn before the block goes, and not before then given up", async () => {
  const cluster = clusterOf(2, "10.0.0.0/28");
  await using node = await openNode(cluster);
  await fill(node, 0, 1);
  node.routes.failures.push(new Error("EBUSY"), new Error("EBUSY"));
  await release(node.ipam, 0);
  assert.equal(node.source.counts.release, 0);
  assert.deepEqual(node.routes.prefixes, ["10.0.0.0/30"]);
  await node.clock.advance(5_000);
  assert.deepEqual(node.routes.prefixes, []);
  assert.equal(cluster.blocks.size, 0);
});

Deno.test("the first address of a block waits for its route, but not for long", async () => {
  const cluster = clusterOf(2, "10.0.0.0/28");
  await using node = await openNode(cluster);
  const { ipam, routes, clock, source } = node;
  const gate = Promise.withResolvers<void>();
  routes.gate = gate.promise;
  let done = false;
  const add = ipam.allocate(keyOf(1)).finally(() => done = true);
  await clock.advance(249);
  assert.equal(done, false);
  assert.equal(
    source.counts.request,
    1,
    "room is coming: no reason to ask again",
  );
  await clock.advance(1);
  assert.equal(textOf(await add), "10.0.0.0");
  gate.resolve();
  await settle();
  assert.deepEqual(routes.prefixes, ["10.0.0.0/30"]);
});

Deno.test("block deleted by hand: its pods keep their addresses, nobody gets them, and DEL works", async () => {
  const cluster = clusterOf(1, "10.0.0.0/29");
  await using node = await openNode(cluster);
  const { ipam, routes } = node;
  await fill(node, 0, 1);
  ipam.onBlocksChanged(cluster.of("node1"));
  cluster.blocks.clear();
  ipam.onBlocksChanged([]);
  await settle();
  assert.equal(ipam.lookup(keyOf(0))?.state, "quarantined");
  assert.deepEqual(routes.prefixes, ["10.0.0.0/32"], "the pod stays reachable");
  await assert.rejects(ipam.allocate(keyOf(0)), QuarantinedError);

  // The controller grants the same block again.
  assert.equal(textOf(await ipam.allocate(keyOf(1))), "10.0.0.1");
  assert.equal(ipam.lookup(keyOf(0))?.state, "used");
  await release(ipam, 0);
  assert.equal(textOf(await ipam.allocate(keyOf(2))), "10.0.0.0");
});

Deno.test("a block that was taken by force and is granted again is used at once, although nobody has looked at the old one", async () => {
  const cluster = clusterOf(2, "10.0.0.0/30");
  await using node = await openNode(cluster);
  const { ipam, source, clock } = node;
  await fill(node, 0, 1);
  cluster.edit("default-0", { deleting: true });
  ipam.onBlocksChanged(cluster.of("node1"));
  await settle();
  const { list } = source.counts;
  cluster.blocks.clear();
  // Until then there was no other block to be had.
  await clock.advance(2_000);
  assert.equal(textOf(await ipam.allocate(keyOf(1))), "10.0.0.1");
  assert.equal(source.counts.list, list + 1, "one list was enough");
  assert.equal(ipam.lookup(keyOf(0))?.state, "used", "its address is covered");
});

Deno.test("the release of a quarantined address withdraws its route", async () => {
  const cluster = clusterOf(1, "10.0.0.0/29");
  await using node = await openNode(cluster, { pods: [podOf(1, "10.9.9.9")] });
  assert.deepEqual(node.routes.prefixes, ["10.9.9.9/32"]);
  await release(node.ipam, 1);
  assert.deepEqual(node.routes.prefixes, []);
});

Deno.test("a watch that lacks a block only stops its use until a live list has spoken", async () => {
  const cluster = clusterOf(2, "10.0.0.0/28");
  await using node = await openNode(cluster);
  const { ipam, source, clock } = node;
  await fill(node, 0, 1);
  ipam.onBlocksChanged(cluster.of("node1"));
  source.failures.push({ kind: "list", error: new Error("away") });
  ipam.onBlocksChanged([]);
  await settle();
  assert.deepEqual(holdsOf(node), { "default-0": ["unconfirmed"] });
  assert.equal(ipam.lookup(keyOf(0))?.state, "used");
  // The next list comes 1 to 3 s after the first.
  await clock.advance(900);
  assert.deepEqual(holdsOf(node), { "default-0": ["unconfirmed"] });
  await clock.advance(2_100);
  assert.deepEqual(holdsOf(node), { "default-0": [] });
  assert.equal(textOf(await ipam.allocate(keyOf(1))), "10.0.0.1");
});

Deno.test("a list that began before the watch lost a block does not bring it back into use", async () => {
  const cluster = clusterOf(1, "10.0.0.0/31");
  await using node = await openNode(cluster);
  const { ipam, source } = node;
  await ipam.allocate(keyOf(1));
  ipam.onBlocksChanged(cluster.of("node1"));
  await settle();
  source.auto = false;
  const reconciled = ipam.reconcile([podOf(1, "10.0.0.0")], { signal });
  await settle();
  const [late] = source.pending;
  assert.ok(late?.kind === "list");
  late.perform();
  const [block] = cluster.of("node1");
  assert.ok(block);
  cluster.remove(block);
  ipam.onBlocksChanged([]);
  late.answer();
  await settle();
  assert.deepEqual(holdsOf(node), { "default-0": ["unconfirmed"] });
  for (const list of source.pending) list.answer();
  source.auto = true;
  await reconciled;
  await settle();
  assert.deepEqual(holdsOf(node), {});
});

Deno.test("a block that this node has returned is not adopted again from a watch that is late", async () => {
  const cluster = clusterOf(2, "10.0.0.0/28");
  await using node = await openNode(cluster);
  const { ipam, source } = node;
  await fill(node, 0, 1);
  const before = cluster.of("node1");
  ipam.onBlocksChanged(before);
  await release(ipam, 0);
  const { list } = source.counts;
  ipam.onBlocksChanged(before);
  await settle();
  assert.deepEqual(namesOf(node), []);
  assert.equal(source.counts.list, list, "there is nothing to find out");
});

Deno.test("a list that was made before a block was returned does not bring it back", async () => {
  const cluster = clusterOf(2, "10.0.0.0/28");
  await using node = await openNode(cluster);
  const { ipam, source } = node;
  await fill(node, 0, 1);
  const [report, list] = await withheld(
    source,
    () => ipam.reconcile([podOf(0, "10.0.0.0")], { signal }),
  );
  source.auto = true;
  await release(ipam, 0);
  assert.deepEqual(namesOf(node), []);
  list?.answer();
  await report;
  assert.deepEqual(namesOf(node), []);
});

Deno.test("an answer that is older than the end of its block does not bring it back", async () => {
  const cluster = clusterOf(1, "10.0.0.0/29");
  await using node = await openNode(cluster, { returnDelayMs: 60_000 });
  const { ipam, source, clock } = node;
  const [add, request] = await withheld(source, () => ipam.allocate(keyOf(1)));
  source.auto = true;
  await ipam.reconcile([], { signal });
  await add;
  cluster.blocks.clear(); // by hand
  cluster.allocate("default", "node2");
  await ipam.reconcile([], { signal });
  request?.answer();
  await settle();
  assert.deepEqual(namesOf(node), []);
  const second = ipam.allocate(keyOf(2));
  await clock.advance(100);
  assert.equal(textOf(await second), "10.0.0.2");
});

Deno.test("a block that the watch has shown being deleted is not used, although the watch goes back and its answer comes late", async () => {
  const cluster = clusterOf(1, "10.0.0.0/29");
  await using node = await openNode(cluster);
  const { ipam, source } = node;
  const [add, request] = await withheld(source, () => ipam.allocate(keyOf(1)));
  source.auto = true;
  const before = cluster.of("node1");
  ipam.onBlocksChanged(before);
  cluster.edit("default-0", { deleting: true });
  ipam.onBlocksChanged(cluster.of("node1"));
  ipam.onBlocksChanged(before);
  request?.answer();
  await settle();
  await node.clock.advance(200);
  await add;
  assert.notEqual(ipam.blocks()[0]?.uid, before[0]?.uid);
});

Deno.test("a list that is older than the end of a block, which the watch has shown, does not bring it", async () => {
  const cluster = clusterOf(1, "10.0.0.0/29");
  await using node = await openNode(cluster);
  const { ipam, source } = node;
  const block = cluster.allocate("default", "node1");
  const [report, list] = await withheld(
    source,
    () => ipam.reconcile([], { signal }),
  );
  ipam.onBlocksChanged([block]);
  ipam.onBlocksChanged([]);
  list?.answer();
  await report;
  assert.deepEqual(namesOf(node), []);
  // The watch may have been wrong: a list that is newer says so.
  source.auto = true;
  await ipam.reconcile([], { signal });
  assert.deepEqual(namesOf(node), [block.name]);
});

Deno.test("a list that was made before a block was granted does not take it away", async () => {
  const cluster = clusterOf(2, "10.0.0.0/28");
  await using node = await openNode(cluster);
  const { ipam, source } = node;
  const [report, list] = await withheld(
    source,
    () => ipam.reconcile([], { signal }),
  );
  source.auto = true;
  await fill(node, 0, 1);
  list?.answer();
  await report;
  assert.equal(ipam.lookup(keyOf(0))?.state, "used");
  assert.deepEqual(namesOf(node), ["default-0"]);
});

Deno.test("a block of this node that the watch shows and nobody asked for is adopted", async () => {
  const cluster = clusterOf(2, "10.0.0.0/28");
  await using node = await openNode(cluster, { returnDelayMs: 60_000 });
  cluster.add({ pool: "default", index: 2, node: "node1" });
  node.ipam.onBlocksChanged(cluster.of("node1"));
  await settle();
  assert.deepEqual(namesOf(node), ["default-2"]);
  assert.equal(textOf(await node.ipam.allocate(keyOf(1))), "10.0.0.8");
});

Deno.test("a request whose block the watch shows, loses, and a list finds has been granted", async () => {
  const cluster = clusterOf(2, "10.0.0.0/28");
  const outcomes: string[] = [];
  await using node = await openNode(cluster, {
    returnDelayMs: 60_000,
    observer: { blockRequested: ({ outcome }) => outcomes.push(outcome) },
  });
  const { ipam, source } = node;
  const [add, request] = await withheld(source, () => ipam.allocate(keyOf(1)));
  ipam.onBlocksChanged(cluster.of("node1"));
  ipam.onBlocksChanged([]); // a watch may go back in time
  source.auto = true;
  await ipam.reconcile([], { signal });
  await add;
  for (let n = 0; n < 2; n++) ipam.onBlocksChanged(cluster.of("node1"));
  await settle();
  const { calls } = node.routes;
  request?.answer();
  await settle();
  assert.deepEqual(outcomes, ["granted"]);
  assert.deepEqual(namesOf(node), ["default-0"]);
  assert.equal(node.routes.calls, calls, "its route is there");
});

Deno.test("a request whose block others have filled goes on, after a pause", async () => {
  const cluster = clusterOf(0, "10.0.0.0/31");
  const outcomes: string[] = [];
  await using node = await openNode(cluster, {
    observer: { blockRequested: ({ outcome }) => outcomes.push(outcome) },
  });
  const { ipam, source, clock } = node;
  const [first, request] = await withheld(
    source,
    () => ipam.allocate(keyOf(1)),
  );
  source.auto = true;
  await ipam.reconcile([], { signal });
  assert.equal(textOf(await first), "10.0.0.0");
  const second = ipam.allocate(keyOf(2));
  await settle();
  request?.answer();
  await settle();
  assert.equal(source.counts.request, 1);
  await clock.advance(100);
  assert.equal(textOf(await second), "10.0.0.1");
  assert.deepEqual(outcomes, ["error", "granted"]);
});

Deno.test("nothing is given out of a block that was deleted while its answer was on its way", async () => {
  const cluster = clusterOf(1, "10.0.0.0/29");
  await using node = await openNode(cluster);
  const { ipam, source, clock } = node;
  const [add, request] = await withheld(source, () => ipam.allocate(keyOf(1)));
  cluster.edit("default-0", { deleting: true });
  ipam.onBlocksChanged(cluster.of("node1"));
  source.auto = true;
  request?.answer();
  await clock.advance(100);
  await add;
  assert.deepEqual([source.counts.request, source.counts.release], [2, 1]);
});

Deno.test("the first address of a block that a list finds waits for its route", async () => {
  const cluster = clusterOf(2, "10.0.0.0/28");
  await using node = await openNode(cluster);
  const { ipam, routes, source } = node;
  const gate = Promise.withResolvers<void>();
  routes.gate = gate.promise;
  cluster.allocate("default", "node1");
  await ipam.reconcile([], { signal });
  const add = ipam.allocate(keyOf(1));
  await settle();
  assert.deepEqual(holdsOf(node), { "default-0": ["unexported"] });
  assert.equal(ipam.stats()[0]?.waiting, 1);
  gate.resolve();
  assert.equal(textOf(await add), "10.0.0.0");
  assert.equal(source.counts.request, 0);
});

Deno.test("a block that the watch shows while the node starts is found", async () => {
  const cluster = clusterOf(2, "10.0.0.0/28");
  const source = new FakeBlockSource(cluster, "node1");
  const [routes, clock] = [new FakeRoutes(), new FakeClock()];
  await using ipam = new NodeIpam({ source, routes, clock });
  const [started, list] = await withheld(
    source,
    () => ipam.start([], { signal }),
  );
  cluster.allocate("default", "node1");
  ipam.onBlocksChanged(cluster.of("node1"));
  source.auto = true;
  list?.answer();
  await started;
  await settle();
  assert.deepEqual(ipam.blocks().map(({ name }) => name), ["default-0"]);
  assert.equal(source.counts.list, 2);
  // However often the watch shows one more, one list is enough.
  source.auto = false;
  cluster.allocate("default", "node1");
  for (let n = 0; n < 3; n++) ipam.onBlocksChanged(cluster.of("node1"));
  await settle();
  source.auto = true;
  for (const call of [...source.pending]) call.answer();
  await settle();
  assert.equal(ipam.blocks().length, 2);
  assert.equal(source.counts.list, 3);
});

Deno.test("an ADD that waits is served by a block that is as before its edit", async () => {
  const cluster = clusterOf(1, "10.0.0.0/29");
  await using node = await openNode(cluster, { returnDelayMs: 60_000 });
  const { ipam, source } = node;
  await fill(node, 0, 1);
  cluster.edit("default-0", { index: 3 });
  ipam.onBlocksChanged(cluster.of("node1"));
  source.auto = false;
  const add = ipam.allocate(keyOf(1));
  await settle();
  cluster.edit("default-0", { index: 0 });
  ipam.onBlocksChanged(cluster.of("node1"));
  await settle();
  for (const call of source.pending) if (call.kind === "list") call.answer();
  assert.equal(textOf(await add), "10.0.0.1");
});

Deno.test("an empty block that is being deleted is given back at once, and one that is gone is forgotten", async () => {
  const cluster = clusterOf(1, "10.0.0.0/29");
  await using node = await openNode(cluster, { returnDelayMs: 60_000 });
  const { ipam } = node;
  await fill(node, 0, 1);
  await release(ipam, 0);
  cluster.edit("default-0", { deleting: true });
  ipam.onBlocksChanged(cluster.of("node1"));
  await settle();
  assert.equal(cluster.blocks.size, 0);

  await fill(node, 1, 2);
  await release(ipam, 1);
  cluster.blocks.clear();
  assert.deepEqual(namesOf(node), ["default-0"]);
  await ipam.reconcile([], { signal });
  assert.deepEqual(namesOf(node), []);
});

Deno.test("the export table is written again soon after a failure, and once", async () => {
  const cluster = clusterOf(2, "10.0.0.0/28");
  await using node = await openNode(cluster);
  const { ipam, routes, clock } = node;
  await fill(node, 0, 1);
  const fail = async () => {
    routes.prefixes = [];
    routes.failures.push(new Error("EBUSY"));
    assert.equal(await ipam.restoreExport({ signal }), false);
  };
  for (let n = 0; n < 8; n++) await fail();
  await clock.advance(30_000);
  assert.deepEqual(routes.prefixes, ["10.0.0.0/30"]);
  await fail();
  await clock.advance(500);
  assert.deepEqual(routes.prefixes, ["10.0.0.0/30"]);

  await fail();
  await ipam.restoreExport({ signal });
  const { calls } = routes;
  await clock.advance(60_000);
  assert.equal(routes.calls, calls);
});

Deno.test("a failure of the export that comes after the end is not tried again", async () => {
  const node = await openNode(clusterOf(2, "10.0.0.0/28"));
  const { ipam, routes, clock } = node;
  const gate = Promise.withResolvers<void>();
  routes.gate = gate.promise;
  const restored = ipam.restoreExport({ signal });
  await settle();
  await ipam[Symbol.asyncDispose]();
  gate.reject(new Error("EBUSY"));
  assert.equal(await restored, false);
  assert.equal(clock.pending, 0);
});

Deno.test("two blocks that come during one request are both found", async () => {
  const cluster = clusterOf(2, "10.0.0.0/28");
  await using node = await openNode(cluster, { returnDelayMs: 60_000 });
  const { ipam, source } = node;
  source.auto = false;
  const add = ipam.allocate(keyOf(1));
  await settle();
  cluster.allocate("default", "node1"); // the answer to an earlier request
  const [request] = source.pending;
  request?.perform();
  ipam.onBlocksChanged(cluster.of("node1"));
  await settle();
  assert.equal(source.counts.list, 1, "the request will tell");
  source.auto = true;
  request?.answer();
  await add;
  await settle();
  assert.deepEqual(namesOf(node), ["default-0", "default-1"]);
});

Deno.test("AddressBlock edited by hand: it is not used until it is as before", async () => {
  const cluster = clusterOf(1, "10.0.0.0/29");
  await using node = await openNode(cluster, { returnDelayMs: 60_000 });
  const { ipam, routes } = node;
  await fill(node, 0, 1);
  cluster.edit("default-0", { prefixes: dual("10.0.0.6/31") });
  ipam.onBlocksChanged(cluster.of("node1"));
  await settle();
  assert.deepEqual(holdsOf(node), { "default-0": ["edited"] });
  assert.equal(ipam.lookup(keyOf(0))?.state, "quarantined");
  assert.deepEqual(routes.prefixes, ["10.0.0.0/32"]);
  assert.equal(textOf(await ipam.allocate(keyOf(1))), "10.0.0.2");

  cluster.edit("default-0", { prefixes: dual("10.0.0.0/31") });
  ipam.onBlocksChanged(cluster.of("node1"));
  await settle();
  assert.deepEqual(holdsOf(node)["default-0"], []);
  assert.equal(ipam.lookup(keyOf(0))?.state, "used");
  assert.equal(textOf(await ipam.allocate(keyOf(2))), "10.0.0.1");
});

Deno.test("AddressBlock edited by hand: other labels and the index count too", async () => {
  for (const change of [{ index: 3 }, { pool: "other" }]) {
    const cluster = clusterOf(1, "10.0.0.0/29");
    await using node = await openNode(cluster, { returnDelayMs: 60_000 });
    await fill(node, 0, 1);
    cluster.edit("default-0", change);
    await node.ipam.reconcile([], { signal });
    assert.deepEqual(holdsOf(node)["default-0"], ["edited"]);
  }
});

Deno.test("a block that overlaps another is not used, and asking on does not use up the pool", async () => {
  const cluster = clusterOf(2, "10.0.0.0/28");
  cluster.addPool("other", 3, "10.0.0.0/29", "10.0.0.8/29", "10.0.0.0/24");
  await using node = await openNode(cluster);
  const { ipam, clock } = node;
  await fill(node, 0, 4);
  await assert.rejects(ipam.allocate(keyOf(9, "other")), OutOfBlocksError);
  await assert.rejects(ipam.allocate(keyOf(9, "other")), OutOfBlocksError);
  assert.equal(cluster.of("node1").filter((b) => b.pool === "other").length, 1);
  assert.deepEqual(holdsOf(node)["other-0"], ["overlapping"]);

  // With the block that was there before it becomes usable, but not for an address that a pod still has.
  await release(ipam, 1);
  cluster.blocks.delete("default-0");
  await ipam.reconcile([], { signal });
  await clock.advance(5_000);
  const given = [];
  for (let i = 20; i < 25; i++) {
    given.push(textOf(await ipam.allocate(keyOf(i, "other"))));
  }
  const taken = ["10.0.0.0", "10.0.0.2", "10.0.0.3"];
  assert.deepEqual(given.filter((address) => taken.includes(address)), []);
  assert.equal(new Set(addressesOf(node)).size, addressesOf(node).length);
});

Deno.test("nothing is given out of a block that is reserved later", async () => {
  const cluster = clusterOf(2, "10.0.0.0/28");
  await using node = await openNode(cluster);
  await fill(node, 0, 1);
  cluster.edit("default-0", { reserved: true });
  node.ipam.onBlocksChanged(cluster.of("node1"));
  assert.equal(textOf(await node.ipam.allocate(keyOf(1))), "10.0.0.4");
});

Deno.test("a block goes back a while after its pod, however long that lived", async () => {
  const cluster = clusterOf(2, "10.0.0.0/28");
  await using node = await openNode(cluster, { returnDelayMs: 30_000 });
  await fill(node, 0, 1);
  await node.ipam.reconcile([podOf(0, "10.0.0.0")], { signal });
  await node.clock.advance(600_000);
  await release(node.ipam, 0);
  await node.clock.advance(29_000);
  assert.equal(cluster.blocks.size, 1);
  await node.clock.advance(1_000);
  assert.equal(cluster.blocks.size, 0);
});

Deno.test("a reserved block that is set free is used", async () => {
  const cluster = clusterOf(2, "10.0.0.0/28");
  cluster.add({ pool: "default", index: 0, node: "node1", reserved: true });
  await using node = await openNode(cluster, { returnDelayMs: 60_000 });
  cluster.edit("default-0", { reserved: false });
  await node.ipam.reconcile([], { signal });
  assert.equal(textOf(await node.ipam.allocate(keyOf(1))), "10.0.0.0");
});

Deno.test("a reserved block that the watch shows as set free is used without waiting for a comparison", async () => {
  const cluster = clusterOf(2, "10.0.0.0/28");
  cluster.add({ pool: "default", index: 0, node: "node1", reserved: true });
  let looks = 0;
  await using node = await openNode(cluster, {
    returnDelayMs: 60_000,
    onLook: () => looks++,
  });
  cluster.edit("default-0", { reserved: false });
  const before = looks;
  node.ipam.onBlocksChanged(cluster.of("node1"));
  await settle();
  assert.ok(looks > before);
  assert.equal(textOf(await node.ipam.allocate(keyOf(1))), "10.0.0.0");
});

Deno.test("a pod in the kernel that turns up in a block on its way back keeps the block", async () => {
  const cluster = clusterOf(1, "10.0.0.0/29");
  await using node = await openNode(cluster);
  const { ipam, routes, source } = node;
  await fill(node, 0, 1);
  const gate = Promise.withResolvers<void>();
  routes.gate = gate.promise;
  await release(ipam, 0);
  assert.deepEqual(holdsOf(node), { "default-0": ["returning"] });
  const report = ipam.reconcile([podOf(7, "10.0.0.1")], { signal });
  await settle();
  gate.resolve();
  await report;
  await settle();
  assert.equal(source.counts.release, 0);
  assert.deepEqual(holdsOf(node), { "default-0": [] });
  assert.deepEqual(routes.prefixes, ["10.0.0.0/31"]);
});

Deno.test("a block is not given back while the kernel routes one of its addresses", async () => {
  const cluster = clusterOf(2, "10.0.0.0/30");
  let routed = [Address.parse("10.0.0.1")];
  const kernel = {
    routedWithin: (prefixes: readonly Prefix[]) =>
      Promise.resolve(
        routed.filter((a) => prefixes.some((prefix) => prefix.contains(a))),
      ),
  };
  await using node = await openNode(cluster, { kernel });
  await node.ipam.allocate(keyOf(1));
  await release(node.ipam, 1);
  await node.clock.advance(10_000);
  assert.equal(cluster.blocks.size, 1);
  assert.deepEqual(node.ipam.blocks().map((b) => b.holds), [["returning"]]);

  routed = [];
  await node.clock.advance(60_000);
  assert.equal(cluster.blocks.size, 0);
});

Deno.test("AddressBlock edited by hand: one with families of unequal size is not given back while the kernel routes an address of the larger one", async () => {
  const cluster = clusterOf(1, "10.0.0.0/29");
  const prefixes = dual("10.0.0.0/31 fd00::/120");
  cluster.add({ pool: "default", index: 0, node: "node1", prefixes });
  let routed = [Address.parse("fd00::2")];
  await using node = await openNode(cluster, {
    kernel: { routedWithin: () => Promise.resolve(routed) },
  });
  await node.clock.advance(60_000);
  assert.equal(cluster.blocks.size, 1);
  routed = [];
  await node.clock.advance(60_000);
  assert.equal(cluster.blocks.size, 0);
});

Deno.test("once the API server was asked to take a block back, nothing is given out of it again", async () => {
  const cluster = clusterOf(1, "10.0.0.0/29");
  await using node = await openNode(cluster);
  const { ipam, source, clock } = node;
  await fill(node, 0, 1);
  source.failures.push({ kind: "release", error: new Error("away") });
  await release(ipam, 0);
  await ipam.reconcile([podOf(7, "10.0.0.1")], { signal });
  await clock.advance(5_000);
  assert.deepEqual(holdsOf(node), { "default-0": ["returning"] });
  assert.equal(textOf(await ipam.allocate(keyOf(1))), "10.0.0.2");
  await release(ipam, 7);
  await clock.advance(5_000);
  assert.deepEqual(namesOf(node), ["default-1"]);
});

Deno.test("a freed address rests, unless there is no other", async () => {
  const cluster = clusterOf(1, "10.0.0.0/31");
  await using node = await openNode(cluster, { cooldownMs: 30_000 });
  const { ipam, clock } = node;
  await fill(node, 0, 2);
  await release(ipam, 0);
  assert.deepEqual(ipam.stats().map((s) => [s.free, s.cooling]), [[0, 1]]);
  // The pool is used up: better an address that was in use lately than none.
  assert.equal(textOf(await ipam.allocate(keyOf(2))), "10.0.0.0");
  await release(ipam, 2);
  await clock.advance(30_000);
  assert.deepEqual(ipam.stats().map((s) => [s.free, s.cooling]), [[1, 0]]);
});

Deno.test("a block goes back only when its last address has rested", async () => {
  const cluster = clusterOf(1, "10.0.0.0/29");
  await using node = await openNode(cluster, { cooldownMs: 30_000 });
  await fill(node, 0, 1);
  await release(node.ipam, 0);
  assert.equal(textOf(await node.ipam.allocate(keyOf(1))), "10.0.0.1");
  await release(node.ipam, 1);
  await node.clock.advance(29_000);
  assert.equal(cluster.blocks.size, 1);
  await node.clock.advance(1_000);
  assert.equal(cluster.blocks.size, 0);
});

Deno.test("an address that rests and is found on a pod is not freed when its rest ends", async () => {
  const cluster = clusterOf(1, "10.0.0.0/29");
  await using node = await openNode(cluster, { cooldownMs: 30_000 });
  const { ipam, clock } = node;
  await fill(node, 0, 1);
  await release(ipam, 0);
  await ipam.reconcile([podOf(7, "10.0.0.0")], { signal });
  assert.equal(ipam.blocks()[0]?.cooling, 0);
  await clock.advance(31_000);
  assert.equal(ipam.blocks()[0]?.free, 1);
  assert.equal(textOf(await ipam.allocate(keyOf(1))), "10.0.0.1");
  assert.equal(textOf(await ipam.allocate(keyOf(2))), "10.0.0.2");
});

Deno.test("onFreed() gets the addresses of a pod after its DEL or when the kernel has lost it, and not before", async () => {
  const freed: string[] = [];
  await using node = await openNode(clusterOf(2, "10.0.0.0/29 fd00::/125"), {
    cooldownMs: 60_000,
    graceMs: 1_000,
    confirmMs: 1_000,
    onFreed: (addresses) => void freed.push(valuesOf(addresses).join(" ")),
    pods: [podOf(8, "10.7.7.7")],
  });
  const { ipam, clock } = node;
  await fill(node, 0, 2);
  const isFree = (text: string) => ipam.isFree(Address.parse(text));
  const begun = ipam.beginRelease(keyOf(0));
  assert.ok(begun);
  assert.deepEqual(freed, []);
  assert.equal(isFree("fd00::"), false);
  ipam.finishRelease(begun);
  ipam.finishRelease(begun);
  assert.deepEqual(freed.splice(0), ["10.0.0.0 fd00::"]);
  assert.deepEqual(["10.0.0.0", "fd00::"].map(isFree), [true, true]);
  assert.equal(isFree("10.7.7.7"), false, "in no block");
  for (let n = 0; n < 3; n++) {
    await clock.advance(2_000);
    await ipam.reconcile([podOf(8, "10.7.7.7")], { signal });
  }
  assert.deepEqual(freed, ["10.0.0.1 fd00::1"]);
});

Deno.test("stats() has pools with nothing but pods, or nothing but waiting allocations", async () => {
  const cluster = clusterOf(2, "10.0.0.0/28");
  const pods = [{ ...podOf(8, "10.7.7.7"), pool: "gone" }];
  await using node = await openNode(cluster, { pods });
  node.source.auto = false;
  const waiting = node.ipam.allocate(keyOf(1));
  waiting.catch(() => {});
  await settle();
  const counts = node.ipam.stats().map((pool) => [
    ...[pool.pool, pool.quarantined, pool.waiting, pool.requesting],
  ]);
  assert.deepEqual(counts, [["default", 0, 1, true], ["gone", 1, 0, false]]);
});

Deno.test("stats() and blocks() count what there is", async () => {
  const cluster = clusterOf(2, "10.0.0.0/28");
  const pods = [podOf(8, "10.7.7.7")];
  await using node = await openNode(cluster, { pods });
  await fill(node, 0, 2);
  node.ipam.beginRelease(keyOf(1));
  assert.deepEqual(node.ipam.stats(), [{
    pool: "default",
    blocks: 1,
    unusableBlocks: 0,
    addresses: 4,
    free: 2,
    used: 1,
    releasing: 1,
    quarantined: 1,
    cooling: 0,
    reserved: 0,
    waiting: 0,
    requesting: false,
  }]);
  const [block] = node.ipam.blocks();
  assert.deepEqual(
    [block?.name, block?.size, block?.held, block?.free, block?.cooling],
    ["default-0", 4, 2, 2, 0],
  );
});
