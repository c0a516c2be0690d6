/** Faults of upstream (W…) and of others (named after their threads) that must not come back. */
import assert from "node:assert/strict";
import { parseReserved } from "../../api/mod.ts";
import { Address } from "../../inet/mod.ts";
import {
  BlockTimeoutError,
  IpamNotReadyError,
  OutOfBlocksError,
  PoolDeletingError,
  PoolNotFoundError,
  PoolPausedError,
  QuarantinedError,
  ReleasedMeanwhileError,
  ReleasePendingError,
} from "../base/errors.ts";
import { NodeIpam } from "./ipam.ts";
import type { KernelPod, RequestOutcome } from "../base/ports.ts";
import {
  FakeBlockSource,
  FakeCluster,
  FakeRoutes,
  keyOf,
  openNode,
  release,
  textOf,
} from "../testing.ts";
import { FakeClock, settle } from "../../async/testing.ts";

const { signal } = new AbortController();
const down = () => new Error("the API server is away");

/** One pool of `blocks` blocks of 2^bits addresses. */
function clusterOf(bits: number, prefix: string): FakeCluster {
  const cluster = new FakeCluster();
  cluster.addPool("default", bits, prefix);
  return cluster;
}

function podOf(n: number, ipv4: string): KernelPod {
  return { ...keyOf(n), addresses: { ipv4: Address.parse(ipv4) } };
}

Deno.test("W1: a failing return of a block leaves no address with two owners", async () => {
  const cluster = clusterOf(0, "10.0.0.0/31");
  await using node = await openNode(cluster);
  const { ipam, source, clock } = node;
  await ipam.allocate(keyOf(1));
  const releasing = ipam.beginRelease(keyOf(1));
  assert.ok(releasing);
  source.failures.push({ kind: "release", error: down() });
  await ipam.finishRelease(releasing);
  await settle();
  assert.deepEqual(ipam.blocks().map((b) => b.holds), [["returning"]]);

  // The next pod gets another block, not the one whose fate is not known.
  assert.equal(textOf(await ipam.allocate(keyOf(2))), "10.0.0.1");
  // The DEL is repeated, with the old state and with a new one.
  await ipam.finishRelease(releasing);
  assert.equal(ipam.beginRelease(keyOf(1)), undefined);
  await clock.advance(5_000);
  assert.deepEqual([...cluster.blocks.keys()], ["default-1"]);
  assert.equal(ipam.lookup(keyOf(2))?.state, "used");
});

Deno.test("W1: the late end of a release does not free the address of the next period", async () => {
  await using node = await openNode(clusterOf(2, "10.0.0.0/30"));
  const { ipam } = node;
  await ipam.allocate(keyOf(0));
  await ipam.allocate(keyOf(1));
  const first = ipam.beginRelease(keyOf(1));
  assert.ok(first);
  await ipam.finishRelease(first);
  const again = await ipam.allocate(keyOf(1));
  const second = ipam.beginRelease(keyOf(1));
  assert.ok(second);
  await ipam.finishRelease(first);
  assert.equal(ipam.lookup(keyOf(1))?.state, "releasing");
  ipam.cancelRelease(second);
  await ipam.finishRelease(second);
  assert.equal(ipam.lookup(keyOf(1))?.state, "used");
  assert.equal(textOf(await ipam.allocate(keyOf(1))), textOf(again));
});

Deno.test("a release that has ended cannot be taken back", async () => {
  await using node = await openNode(clusterOf(2, "10.0.0.0/30"));
  const { ipam } = node;
  await ipam.allocate(keyOf(1));
  const releasing = ipam.beginRelease(keyOf(1));
  assert.ok(releasing);
  ipam.finishRelease(releasing);
  ipam.cancelRelease(releasing);
  assert.deepEqual(ipam.list(), []);
});

Deno.test("W2: concurrent DELs of one pod are one release", async () => {
  await using node = await openNode(clusterOf(0, "10.0.0.0/31"));
  const { ipam } = node;
  await ipam.allocate(keyOf(1));
  const both = [ipam.beginRelease(keyOf(1)), ipam.beginRelease(keyOf(1))];
  assert.deepEqual(both[0], both[1]);
  await Promise.all(both.map((r) => r && ipam.finishRelease(r)));
  await settle();
  assert.deepEqual(ipam.list(), []);
  assert.deepEqual(ipam.blocks(), []);
});

Deno.test("W2: a granted block that is in no list is used all the same", async () => {
  const cluster = clusterOf(2, "10.0.0.0/29");
  await using node = await openNode(cluster);
  const { ipam } = node;
  await ipam.allocate(keyOf(1));
  // The watch has not seen it: that proves nothing.
  ipam.onBlocksChanged([]);
  assert.deepEqual(ipam.blocks().map(({ holds }) => [...holds]), [[]]);
  await settle();
  assert.equal(textOf(await ipam.allocate(keyOf(2))), "10.0.0.1");
});

Deno.test("W3: a wait for one pool holds up neither others nor the reconciliation", async () => {
  const cluster = clusterOf(0, "10.0.0.0/31");
  cluster.addPool("other", 2, "10.1.0.0/29");
  await using node = await openNode(cluster, { returnDelayMs: 60_000 });
  const { ipam, source } = node;
  await ipam.allocate(keyOf(0, "other"));
  source.auto = false;
  const waiting = ipam.allocate(keyOf(1));
  await settle();
  const [request] = source.pending;
  const report = ipam.reconcile([], { signal });
  await settle();
  assert.equal(textOf(await ipam.allocate(keyOf(2, "other"))), "10.1.0.1");
  request?.answer();
  assert.equal(textOf(await waiting), "10.0.0.0");
  // By hand: only the list shows it.
  cluster.add({ pool: "other", index: 1, node: "node1" });
  for (const call of [...source.pending]) call.answer();
  await report;
  assert.ok(ipam.blocks().some(({ name }) => name === "other-1"));
});

Deno.test("W4, dup-same-node (coil#347): concurrent ADDs of one key get one address", async () => {
  await using node = await openNode(clusterOf(2, "10.0.0.0/30"));
  const { ipam, source } = node;
  source.auto = false;
  const adds = Array.from({ length: 5 }, () => ipam.allocate(keyOf(1)));
  await settle();
  assert.equal(source.counts.request, 1);
  for (const call of [...source.pending]) call.answer();
  const results = await Promise.all(adds);
  assert.deepEqual(new Set(results.map(textOf)), new Set(["10.0.0.0"]));
  assert.equal(results.filter((r) => !r.existing).length, 1);
  assert.equal(ipam.list().length, 1);
});

Deno.test("dup-same-node (coil#347): ADDs during block lists get distinct addresses", async () => {
  const cluster = clusterOf(2, "10.0.0.0/27");
  await using node = await openNode(cluster);
  const { ipam } = node;
  const adds = Array.from({ length: 32 }, async (_, i) => {
    ipam.onBlocksChanged(cluster.of("node1"));
    const allocation = await ipam.allocate(keyOf(i));
    await ipam.reconcile([], { signal });
    return textOf(allocation);
  });
  assert.equal(new Set(await Promise.all(adds)).size, 32);
});

Deno.test("W5, restart-mid-grow (aws#66): an answer that comes too late is not lost", async () => {
  const cluster = clusterOf(2, "10.0.0.0/29");
  await using node = await openNode(cluster, { returnDelayMs: 60_000 });
  const { ipam, source, clock } = node;
  source.auto = false;
  const first = ipam.allocate(keyOf(1));
  first.catch(() => {});
  await clock.advance(10_000);
  await assert.rejects(first, BlockTimeoutError);
  for (const call of [...source.pending]) call.answer();
  await settle();
  assert.equal(textOf(await ipam.allocate(keyOf(2))), "10.0.0.0");
  assert.equal(source.counts.request, 1);
});

Deno.test("W5: even an answer that comes after its request was given up is adopted", async () => {
  const cluster = clusterOf(2, "10.0.0.0/29");
  await using node = await openNode(cluster, { blockTimeoutMs: 5_000 });
  const { ipam, source, clock } = node;
  source.auto = false;
  source.deaf = true;
  const first = ipam.allocate(keyOf(1), { signal: AbortSignal.abort() });
  await assert.rejects(first, { name: "AbortError" });
  const second = ipam.allocate(keyOf(1));
  second.catch(() => {});
  await settle();
  const [call] = source.pending;
  await clock.advance(10_000);
  await assert.rejects(second, BlockTimeoutError);
  call?.answer();
  await settle();
  assert.deepEqual(ipam.blocks().map((b) => b.name), ["default-0"]);
});

Deno.test("W5: an answer that comes after its request was given up serves who waits by then", async () => {
  const cluster = clusterOf(2, "10.0.0.0/29");
  await using node = await openNode(cluster, { blockTimeoutMs: 5_000 });
  const { ipam, source, clock } = node;
  source.auto = false;
  source.deaf = true;
  const first = ipam.allocate(keyOf(1));
  first.catch(() => {});
  await settle();
  const [late] = source.pending;
  await clock.advance(10_000);
  await assert.rejects(first, BlockTimeoutError);
  const waiting = ipam.allocate(keyOf(2));
  await settle();
  late?.answer();
  await settle();
  assert.equal(textOf(await waiting), "10.0.0.0");
});

Deno.test("two-blocks (coil#271): one need costs one block however long the controller is away", async () => {
  const cluster = clusterOf(2, "10.0.0.0/28");
  await using node = await openNode(cluster, { returnDelayMs: 60_000 });
  const { ipam, source, clock } = node;
  source.auto = false;
  for (let attempt = 0; attempt < 5; attempt++) {
    const add = ipam.allocate(keyOf(attempt));
    add.catch(() => {});
    await clock.advance(10_000);
    await assert.rejects(add, BlockTimeoutError);
  }
  source.auto = true;
  for (const call of [...source.pending]) call.answer();
  await clock.advance(5_000);
  assert.equal(textOf(await ipam.allocate(keyOf(9))), "10.0.0.0");
  assert.equal(cluster.of("node1").length, 1);
});

Deno.test("failed-add-loop (coil#202): 500 ADDs that fail leave nothing behind", async () => {
  const cluster = clusterOf(2, "10.0.0.0/24");
  await using node = await openNode(cluster, { returnDelayMs: 30_000 });
  const { ipam, source } = node;
  for (let i = 0; i < 500; i++) {
    await ipam.allocate(keyOf(i));
    await release(ipam, i); // what the daemon does when the rest of an ADD fails
  }
  assert.equal(cluster.of("node1").length, 1);
  assert.equal(source.counts.request, 1);
  assert.deepEqual(ipam.list(), []);
});

Deno.test("W6: the lowest block with room is taken, so that others drain", async () => {
  const cluster = clusterOf(1, "10.0.0.0/28");
  await using node = await openNode(cluster, { returnDelayMs: 60_000 });
  const { ipam } = node;
  for (let i = 0; i < 6; i++) await ipam.allocate(keyOf(i));
  await release(ipam, 5);
  await release(ipam, 0);
  await release(ipam, 2);
  assert.equal(textOf(await ipam.allocate(keyOf(7))), "10.0.0.0");
  assert.equal(textOf(await ipam.allocate(keyOf(8))), "10.0.0.2");
  assert.equal(textOf(await ipam.allocate(keyOf(9))), "10.0.0.5");
});

Deno.test("W7: nothing is given out of a block that is being deleted, and it goes with its last address", async () => {
  const cluster = clusterOf(1, "10.0.0.0/30");
  await using node = await openNode(cluster);
  const { ipam } = node;
  await ipam.allocate(keyOf(1));
  cluster.edit("default-0", { deleting: true });
  ipam.onBlocksChanged(cluster.of("node1"));
  assert.equal(textOf(await ipam.allocate(keyOf(2))), "10.0.0.2");
  assert.ok(cluster.blocks.has("default-0"), "its pod still lives");
  await release(ipam, 1);
  assert.deepEqual([...cluster.blocks.keys()], ["default-1"]);
});

Deno.test("W7: nothing is given out of a block that is being deleted when it is first listed", async () => {
  const cluster = clusterOf(1, "10.0.0.0/30");
  cluster.add({ pool: "default", index: 0, node: "node1", deleting: true });
  const pods = [podOf(1, "10.0.0.0")];
  await using node = await openNode(cluster, { pods });
  assert.equal(textOf(await node.ipam.allocate(keyOf(2))), "10.0.0.2");
  assert.equal(node.ipam.lookup(keyOf(1))?.state, "used");
});

Deno.test("W7: an empty block that is being deleted when it is first listed goes at once", async () => {
  const cluster = clusterOf(1, "10.0.0.0/30");
  cluster.add({ pool: "default", index: 0, node: "node1", deleting: true });
  await using _node = await openNode(cluster, { returnDelayMs: 60_000 });
  assert.equal(cluster.blocks.size, 0);
});

Deno.test("W7: an address of no block that is found at the start is never given out", async () => {
  const cluster = clusterOf(2, "10.0.0.0/29");
  const pods = [podOf(1, "10.0.0.1")];
  await using node = await openNode(cluster, { pods });
  const { ipam, routes } = node;
  assert.equal(ipam.lookup(keyOf(1))?.state, "quarantined");
  assert.deepEqual(routes.prefixes, ["10.0.0.1/32"]);
  await assert.rejects(ipam.allocate(keyOf(1)), QuarantinedError);
  const given = [];
  for (const n of [2, 3, 4]) given.push(textOf(await ipam.allocate(keyOf(n))));
  assert.deepEqual(given, ["10.0.0.2", "10.0.0.3", "10.0.0.0"]);
  assert.equal(ipam.lookup(keyOf(1))?.state, "used", "a block covers it now");
  assert.deepEqual(routes.prefixes, ["10.0.0.0/30"]);
  await release(ipam, 1);
  assert.equal(textOf(await ipam.allocate(keyOf(5))), "10.0.0.1");
});

Deno.test("W19: requests, returns and waits can be measured", async () => {
  const outcomes: RequestOutcome[] = [];
  const returns: boolean[] = [];
  const waits: [boolean, number][] = [];
  const cluster = clusterOf(0, "10.0.0.0/32");
  await using node = await openNode(cluster, {
    observer: {
      blockRequested: ({ outcome }) => outcomes.push(outcome),
      blockReturned: ({ ok }) => returns.push(ok),
      allocated: ({ ok, seconds }) => waits.push([ok, seconds]),
    },
  });
  const { ipam, source, clock } = node;
  source.auto = false;
  const add = ipam.allocate(keyOf(1));
  await clock.advance(1_500);
  source.auto = true;
  for (const call of [...source.pending]) call.answer();
  await add;
  await assert.rejects(ipam.allocate(keyOf(2)), OutOfBlocksError);
  source.failures.push({ kind: "release", error: down() });
  await release(ipam, 1);
  await clock.advance(2_000);
  assert.deepEqual(outcomes, ["granted", "out-of-blocks"]);
  assert.deepEqual(returns, [false, true]);
  assert.deepEqual(waits, [[true, 1.5], [false, 0]]);
});

Deno.test("W50: a pool that does not exist is refused at once", async () => {
  await using node = await openNode(clusterOf(2, "10.0.0.0/29"));
  await assert.rejects(
    node.ipam.allocate(keyOf(1, "typo")),
    (error) =>
      error instanceof PoolNotFoundError && /"typo"/.test(error.message),
  );
  assert.deepEqual(node.ipam.stats(), []);
});

Deno.test("deleting-pool (coil#284): an ADD fails clearly, also one that waits", async () => {
  const cluster = clusterOf(1, "10.0.0.0/30");
  await using node = await openNode(cluster, { returnDelayMs: 60_000 });
  const { ipam, source } = node;
  await ipam.allocate(keyOf(1));
  await ipam.allocate(keyOf(2));
  await release(ipam, 2);
  const pool = cluster.pools.get("default");
  assert.ok(pool);
  pool.state = "deleting";
  await assert.rejects(ipam.allocate(keyOf(3)), PoolDeletingError);
  assert.equal((await ipam.allocate(keyOf(1))).existing, true);

  pool.state = "ready";
  await ipam.allocate(keyOf(2));
  source.auto = false;
  const waiting = ipam.allocate(keyOf(4));
  waiting.catch(() => {});
  await settle();
  pool.state = "deleting";
  ipam.onPoolsChanged();
  await assert.rejects(waiting, PoolDeletingError);
});

Deno.test("a pool that is paused gives no address, keeps what it gave, and goes on when the pause ends", async () => {
  const cluster = clusterOf(2, "10.0.0.0/29");
  await using node = await openNode(cluster, { returnDelayMs: 60_000 });
  const { ipam, source, clock } = node;
  await ipam.allocate(keyOf(1));
  const pool = cluster.pools.get("default");
  assert.ok(pool);
  pool.state = "paused";
  ipam.onPoolsChanged();
  const { request } = source.counts;
  await assert.rejects(ipam.allocate(keyOf(2)), PoolPausedError);
  assert.equal((await ipam.allocate(keyOf(1))).existing, true);
  await release(ipam, 1);
  assert.equal(cluster.blocks.size, 1, "empty blocks return as usual");
  await clock.advance(100_000);
  assert.equal(cluster.blocks.size, 0);
  assert.equal(source.counts.request, request);
  pool.state = "ready";
  ipam.onPoolsChanged();
  assert.equal((await ipam.allocate(keyOf(2))).existing, false);
});

Deno.test("a reserved address is not given from then on, not even one that cools, and who has it keeps it", async () => {
  const cluster = clusterOf(2, "10.0.0.0/30");
  const pool = cluster.pools.get("default");
  assert.ok(pool);
  pool.reserved = parseReserved(["10.0.0.1"]);
  await using node = await openNode(cluster, { cooldownMs: 30_000 });
  const { ipam, clock } = node;
  const give = async (n: number) =>
    `${(await ipam.allocate(keyOf(n))).addresses.ipv4}`;
  assert.equal(await give(0), "10.0.0.0");
  assert.equal(await give(2), "10.0.0.2");
  assert.equal(ipam.stats()[0]?.reserved, 1);
  pool.reserved = parseReserved(["10.0.0.2-10.0.0.3"]);
  ipam.onPoolsChanged();
  assert.equal(await give(2), "10.0.0.2", "kept");
  assert.deepEqual([ipam.stats()[0]?.free, ipam.stats()[0]?.reserved], [1, 1]);
  assert.equal(await give(1), "10.0.0.1");
  await release(ipam, 2);
  await assert.rejects(ipam.allocate(keyOf(3)), OutOfBlocksError);
  await clock.advance(31_000);
  await assert.rejects(ipam.allocate(keyOf(3)), OutOfBlocksError);
  assert.deepEqual([ipam.stats()[0]?.free, ipam.stats()[0]?.reserved], [0, 2]);
  await release(ipam, 0);
  assert.equal(await give(3), "10.0.0.0", "rather one that cools");
  pool.reserved = [];
  ipam.onPoolsChanged();
  assert.equal(await give(4), "10.0.0.2", "the next after the last given");
});

Deno.test("a pod that waits for a block of a pool that is paused is refused", async () => {
  const cluster = clusterOf(2, "10.0.0.0/29");
  await using node = await openNode(cluster);
  node.source.auto = false;
  const waiting = node.ipam.allocate(keyOf(1));
  waiting.catch(() => {});
  await settle();
  const pool = cluster.pools.get("default");
  assert.ok(pool);
  pool.state = "paused";
  node.ipam.onPoolsChanged();
  await assert.rejects(waiting, PoolPausedError);
});

Deno.test("a pool that is being deleted gets its blocks back at once", async () => {
  const cluster = clusterOf(2, "10.0.0.0/29");
  await using node = await openNode(cluster, { returnDelayMs: 60_000 });
  const { ipam } = node;
  await ipam.allocate(keyOf(1));
  const pool = cluster.pools.get("default");
  assert.ok(pool);
  pool.state = "deleting";
  ipam.onPoolsChanged();
  await settle();
  assert.equal(cluster.blocks.size, 1);
  await release(ipam, 1);
  assert.equal(cluster.blocks.size, 0);
});

Deno.test("a storm of ADDs on a used-up pool asks once, and room that comes back is found soon", async () => {
  const cluster = clusterOf(0, "10.0.0.0/32");
  cluster.allocate("default", "node2");
  await using node = await openNode(cluster);
  const { ipam, source, clock } = node;
  const storm = () =>
    Promise.allSettled(
      Array.from({ length: 100 }, (_, i) => ipam.allocate(keyOf(i))),
    );
  const outcomes = await storm();
  assert.ok(
    outcomes.every((o) =>
      o.status === "rejected" && o.reason instanceof OutOfBlocksError
    ),
  );
  await storm();
  assert.equal(source.counts.request, 1);
  cluster.blocks.clear();
  await clock.advance(1_000);
  assert.equal(textOf(await ipam.allocate(keyOf(1))), "10.0.0.0");
});

Deno.test("a used-up pool that changes is asked again at once", async () => {
  const cluster = clusterOf(0, "10.0.0.0/32");
  await using node = await openNode(cluster);
  const { ipam } = node;
  await ipam.allocate(keyOf(1));
  await assert.rejects(ipam.allocate(keyOf(2)), OutOfBlocksError);
  cluster.addPool("default", 0, "10.0.0.0/31");
  ipam.onPoolsChanged();
  assert.equal(textOf(await ipam.allocate(keyOf(2))), "10.0.0.1");
});

Deno.test("an ADD waits for the used-up pool's address that is just being released", async () => {
  const cluster = clusterOf(0, "10.0.0.0/32");
  await using node = await openNode(cluster);
  const { ipam, source } = node;
  const first = await ipam.allocate(keyOf(1));
  await assert.rejects(ipam.allocate(keyOf(2)), OutOfBlocksError);
  const releasing = ipam.beginRelease(keyOf(1));
  assert.ok(releasing);
  const requests = source.counts.request;
  const waiting = [ipam.allocate(keyOf(2)), ipam.allocate(keyOf(3))];
  await settle();
  await ipam.finishRelease(releasing);
  const outcomes = await Promise.allSettled(waiting);
  assert.deepEqual(
    outcomes.map((o) =>
      o.status === "fulfilled" ? textOf(o.value) : o.reason.name
    ),
    [textOf(first), "OutOfBlocksError"],
  );
  assert.equal(source.counts.request, requests);
});

Deno.test("an address of another pool that is being released is no reason to wait", async () => {
  const cluster = clusterOf(0, "10.0.0.0/32");
  cluster.addPool("other", 0, "10.1.0.0/32");
  await using node = await openNode(cluster);
  const { ipam } = node;
  for (const pool of ["default", "other"]) {
    await ipam.allocate(keyOf(1 + pool.length, pool));
  }
  await assert.rejects(ipam.allocate(keyOf(1)), OutOfBlocksError);
  assert.ok(ipam.beginRelease(keyOf(1 + "other".length)));
  await assert.rejects(ipam.allocate(keyOf(1)), OutOfBlocksError);
});

Deno.test("a release that does not come to its end leaves an ADD with the pool's refusal", async () => {
  await using node = await openNode(clusterOf(0, "10.0.0.0/32"));
  const { ipam, clock } = node;
  await ipam.allocate(keyOf(1));
  await assert.rejects(ipam.allocate(keyOf(2)), OutOfBlocksError);
  ipam.beginRelease(keyOf(1));
  const waiting = ipam.allocate(keyOf(2));
  const refused = assert.rejects(waiting, OutOfBlocksError);
  await clock.advance(60_000);
  await refused;
});

Deno.test("with the API server away, ADD and DEL work as long as there is room, and then the cause is named", async () => {
  await using node = await openNode(clusterOf(1, "10.0.0.0/29"), {
    returnDelayMs: 60_000,
  });
  const { ipam, source, clock } = node;
  await ipam.allocate(keyOf(1));
  for (let i = 0; i < 100; i++) {
    source.failures.push({ kind: "request", error: down() });
  }
  await ipam.allocate(keyOf(2));
  await release(ipam, 1);
  await ipam.allocate(keyOf(3));
  const add = ipam.allocate(keyOf(4));
  add.catch(() => {});
  await clock.advance(10_000);
  await assert.rejects(
    add,
    (error) =>
      error instanceof BlockTimeoutError && error.cause instanceof Error &&
      error.cause.message === "the API server is away",
  );
  assert.ok(source.counts.request < 20, "it does not hammer");
});

Deno.test("a cause that is over is not named, and a block is fetched ahead again at once", async () => {
  await using node = await openNode(clusterOf(2, "10.0.0.0/28"));
  const { ipam, source, clock } = node;
  source.failures.push({ kind: "request", error: down() });
  const first = ipam.allocate(keyOf(0));
  await clock.advance(100);
  await first;
  for (const n of [1, 2, 3]) await ipam.allocate(keyOf(n));
  await settle();
  assert.equal(source.counts.request, 3);
  for (const n of [4, 5, 6]) await ipam.allocate(keyOf(n));
  source.auto = false;
  await ipam.allocate(keyOf(7));
  const add = ipam.allocate(keyOf(8));
  add.catch(() => {});
  await clock.advance(10_000);
  await assert.rejects(
    add,
    (error) => error instanceof BlockTimeoutError && error.cause === undefined,
  );
});

Deno.test("an ADD asks for a block although an address of the pool is being released", async () => {
  await using node = await openNode(clusterOf(0, "10.0.0.0/31"));
  const { ipam } = node;
  await ipam.allocate(keyOf(1));
  assert.ok(ipam.beginRelease(keyOf(1)));
  assert.equal(textOf(await ipam.allocate(keyOf(2))), "10.0.0.1");
});

Deno.test("an address that becomes free serves any ADD that waits, also without the API server", async () => {
  await using node = await openNode(clusterOf(0, "10.0.0.0/31"));
  const { ipam, source } = node;
  await ipam.allocate(keyOf(1));
  source.auto = false;
  const waiting = ipam.allocate(keyOf(2));
  await settle();
  await release(ipam, 1);
  assert.equal(textOf(await waiting), "10.0.0.0");
});

Deno.test("an ADD during the DEL of its key waits for it, and gets an address of its own", async () => {
  await using node = await openNode(clusterOf(2, "10.0.0.0/30"));
  const { ipam, clock } = node;
  const before = await ipam.allocate(keyOf(1));
  const releasing = ipam.beginRelease(keyOf(1));
  assert.ok(releasing);
  const add = ipam.allocate(keyOf(1));
  await settle();
  assert.equal(ipam.lookup(keyOf(1))?.state, "releasing");
  await ipam.finishRelease(releasing);
  const after = await add;
  assert.equal(after.existing, false);
  assert.ok(after.generation > before.generation);

  const stuck = ipam.beginRelease(keyOf(1));
  const late = ipam.allocate(keyOf(1));
  late.catch(() => {});
  await clock.advance(10_000);
  await assert.rejects(late, ReleasePendingError);
  assert.deepEqual(ipam.beginRelease(keyOf(1)), stuck);
});

Deno.test("an ADD goes on when a comparison frees what a DEL of its key had left", async () => {
  await using node = await openNode(clusterOf(2, "10.0.0.0/30"), {
    graceMs: 1_000,
    confirmMs: 500,
  });
  const { ipam, clock } = node;
  await ipam.allocate(keyOf(1));
  assert.ok(ipam.beginRelease(keyOf(1)));
  await clock.advance(2_000);
  const add = ipam.allocate(keyOf(1));
  await ipam.reconcile([], { signal });
  await clock.advance(1_000);
  const { freed } = await ipam.reconcile([], { signal });
  assert.equal(freed.length, 1);
  await settle();
  assert.equal(ipam.lookup(keyOf(1))?.state, "used");
  assert.equal((await add).existing, false);
});

Deno.test("the end of the daemon fails an ADD that waits for a DEL of its key", async () => {
  await using node = await openNode(clusterOf(2, "10.0.0.0/30"));
  const { ipam, clock } = node;
  await ipam.allocate(keyOf(1));
  assert.ok(ipam.beginRelease(keyOf(1)));
  const add = ipam.allocate(keyOf(1));
  add.catch(() => {});
  await settle();
  await ipam[Symbol.asyncDispose]();
  await settle();
  // Else its time would have to pass.
  assert.equal(clock.pending, 0);
  await assert.rejects(add, IpamNotReadyError);
});

Deno.test("a DEL ends an ADD of its key that waits for a block", async () => {
  const cluster = clusterOf(2, "10.0.0.0/30");
  await using node = await openNode(cluster);
  const { ipam, source } = node;
  source.auto = false;
  const add = ipam.allocate(keyOf(1));
  add.catch(() => {});
  await settle();
  assert.equal(ipam.beginRelease(keyOf(1)), undefined);
  source.auto = true;
  for (const call of [...source.pending]) call.answer();
  await assert.rejects(add, ReleasedMeanwhileError);
  await settle();
  assert.deepEqual(ipam.list(), []);
  assert.equal(cluster.blocks.size, 0, "nobody needs the block any more");
});

Deno.test("a DEL ends an ADD of its key that an address has just become free for", async () => {
  await using node = await openNode(clusterOf(0, "10.0.0.0/32"));
  const { ipam, source } = node;
  await ipam.allocate(keyOf(1));
  source.auto = false;
  const add = ipam.allocate(keyOf(2));
  add.catch(() => {});
  await settle();
  const releasing = ipam.beginRelease(keyOf(1));
  assert.ok(releasing);
  ipam.finishRelease(releasing);
  assert.equal(ipam.beginRelease(keyOf(2)), undefined);
  await assert.rejects(add, ReleasedMeanwhileError);
  assert.deepEqual(ipam.list(), []);
});

Deno.test("an ADD whose DEL is taken back gets what it had", async () => {
  await using node = await openNode(clusterOf(2, "10.0.0.0/30"));
  const { ipam } = node;
  await ipam.allocate(keyOf(1));
  const releasing = ipam.beginRelease(keyOf(1));
  assert.ok(releasing);
  const add = ipam.allocate(keyOf(1));
  await settle();
  ipam.cancelRelease(releasing);
  assert.equal((await add).existing, true);
});

Deno.test("an ADD that was given up before it began gets nothing", async () => {
  await using node = await openNode(clusterOf(2, "10.0.0.0/30"));
  const { ipam } = node;
  await ipam.allocate(keyOf(1));
  const gone = ipam.allocate(keyOf(2), { signal: AbortSignal.abort() });
  await assert.rejects(gone, { name: "AbortError" });
  assert.equal(ipam.list().length, 1);
});

Deno.test("an ADD that meets the return of the only block waits a moment and gets it again", async () => {
  await using node = await openNode(clusterOf(1, "10.0.0.0/31"));
  const { ipam, source, clock } = node;
  await ipam.allocate(keyOf(1));
  source.auto = false;
  await release(ipam, 1);
  const add = ipam.allocate(keyOf(2));
  await settle();
  const [back, request] = [...source.pending];
  request?.answer();
  await settle();
  back?.answer();
  source.auto = true;
  await clock.advance(100);
  assert.equal(textOf(await add), "10.0.0.0");
});

Deno.test("one ADD that gives up does not end the request that others share", async () => {
  await using node = await openNode(clusterOf(2, "10.0.0.0/30"));
  const { ipam, source } = node;
  source.auto = false;
  const controller = new AbortController();
  const first = ipam.allocate(keyOf(1), { signal: controller.signal });
  const second = ipam.allocate(keyOf(2));
  await settle();
  controller.abort();
  await assert.rejects(first, { name: "AbortError" });
  assert.equal(source.pending.size, 1);
  for (const call of [...source.pending]) call.answer();
  assert.equal(textOf(await second), "10.0.0.0");
});

Deno.test("start() waits for the API server; until then DEL works and ADD is told to come again", async () => {
  const cluster = clusterOf(2, "10.0.0.0/30");
  cluster.allocate("default", "node1");
  const source = new FakeBlockSource(cluster, "node1");
  const routes = new FakeRoutes();
  const ipam = new NodeIpam({ source, routes, clock: new FakeClock() });
  await using _ = ipam;
  source.auto = false;
  const pods = [podOf(1, "10.0.0.1"), podOf(2, "10.0.0.2")];
  const started = ipam.start(pods, { signal });
  await settle();
  await assert.rejects(ipam.allocate(keyOf(3)), IpamNotReadyError);
  await release(ipam, 1);
  assert.equal(await ipam.restoreExport({ signal }), true);
  assert.equal(routes.calls, 0, "the routes of living pods stay");
  for (const call of [...source.pending]) call.answer();
  await started;
  assert.deepEqual(ipam.list().map((r) => [r.containerId, r.state]), [[
    "c2",
    "used",
  ]]);
  assert.deepEqual(routes.prefixes, ["10.0.0.0/30"]);
});

Deno.test("start() tries again when the list fails", async () => {
  const cluster = clusterOf(2, "10.0.0.0/30");
  const source = new FakeBlockSource(cluster, "node1");
  source.failures.push({ kind: "list", error: down() });
  const ipam = new NodeIpam({
    source,
    routes: new FakeRoutes(),
    clock: new FakeClock(),
  });
  await using _ = ipam;
  await ipam.start([], { signal });
  assert.equal(source.counts.list, 2);
});

Deno.test("the end of the daemon fails what waits and leaves no work behind", async () => {
  const node = await openNode(clusterOf(2, "10.0.0.0/30"));
  const { ipam, source, clock } = node;
  source.auto = false;
  const add = ipam.allocate(keyOf(1));
  add.catch(() => {});
  await settle();
  const controller = new AbortController();
  const running = ipam.run(controller.signal);
  controller.abort();
  await running;
  await assert.rejects(add, IpamNotReadyError);
  assert.equal(source.pending.size, 0);
  assert.equal(clock.pending, 0);
  await assert.rejects(ipam.allocate(keyOf(1)), IpamNotReadyError);
});

Deno.test("the end of the daemon leaves no timer, also with blocks on their way back", async () => {
  const cluster = clusterOf(0, "10.0.0.0/30");
  const node = await openNode(cluster, {
    returnDelayMs: 60_000,
    jitterOf: (block) => block === "default-0" ? 0 : 1,
  });
  const { ipam, source, routes, clock } = node;
  for (const n of [1, 2]) await ipam.allocate(keyOf(n));
  for (const n of [1, 2]) await release(ipam, n);
  source.auto = false;
  // One block is on its way back, one is to go later, and the export has failed.
  await clock.advance(31_000);
  assert.equal(source.pending.size, 1);
  routes.failures.push(down());
  assert.equal(await ipam.restoreExport({ signal }), false);
  assert.ok(clock.pending > 1);
  await ipam[Symbol.asyncDispose]();
  await settle();
  assert.deepEqual([clock.pending, source.pending.size], [0, 0]);
});

Deno.test("run() throws the failure that has ended the background work", async () => {
  const failure = new Error("nobody expected this");
  await using node = await openNode(clusterOf(2, "10.0.0.0/30"), {
    observer: {
      blockRequested() {
        throw failure;
      },
    },
  });
  const running = node.ipam.run(signal);
  const add = node.ipam.allocate(keyOf(1));
  await assert.rejects(running, failure);
  await assert.rejects(add, IpamNotReadyError);
});
