/** A supply of many small blocks: several by one request, a store without pods. */
import assert from "node:assert/strict";
import { parseReserved } from "../../api/mod.ts";
import { Address } from "../../inet/mod.ts";
import { OutOfBlocksError } from "../base/errors.ts";
import type { Rest, Stock } from "../base/ports.ts";
import {
  FakeBlockSource,
  FakeCluster,
  FakeRoutes,
  keyOf,
  openNode,
  type PendingCall,
  release,
  textOf,
} from "../testing.ts";
import { FakeClock, settle } from "../../async/testing.ts";
import { NodeIpam } from "./ipam.ts";

const STRICT = { rest: "strict", cooldownMs: 30_000 } as const;

/** Pool "default" of single addresses. */
function singles(subnet: string): FakeCluster {
  const cluster = new FakeCluster();
  cluster.addPool("default", 0, subnet);
  return cluster;
}

/** Keeps `count` addresses free, also while no pod is there. */
function always(count: number): Stock {
  return {
    pools: ["default"],
    short: ({ free }) => count - free,
    isSpare: ({ freeCount }, { free }) => free - freeCount >= count,
  };
}

Deno.test("one request gets blocks for all who wait, and for the store", async () => {
  const cluster = singles("10.0.0.0/27");
  await using node = await openNode(cluster, { stock: always(3) });
  const { source, ipam } = node;
  assert.deepEqual(source.wanted, [3, 2, 1], "the store, block by block");
  source.mostBlocks = 20;
  const adds = [0, 1, 2, 3, 4, 5, 6, 7, 8].map((n) => ipam.allocate(keyOf(n)));
  const addresses = (await Promise.all(adds)).map(textOf);
  assert.equal(new Set(addresses).size, 9);
  assert.deepEqual(source.wanted.slice(3), [9]);
  assert.equal(ipam.stats()[0]?.free, 3);
});

Deno.test("a store without pods goes back when it is larger than wanted, not below", async () => {
  const cluster = singles("10.0.0.0/27");
  for (let n = 0; n < 5; n++) cluster.allocate("default", "node1");
  await using node = await openNode(cluster, { stock: always(3) });
  await node.clock.advance(60_000);
  const names = node.ipam.blocks().map(({ name }) => name);
  assert.deepEqual(names, ["default-0", "default-1", "default-2"]);
});

Deno.test("blocks of an answer that can be used are used, even when others cannot", async () => {
  const cluster = singles("10.0.0.0/27");
  cluster.addPool("other", 4, "10.0.0.0/28");
  cluster.add({ pool: "other", index: 0, node: "node1", reserved: true });
  for (let n = 0; n < 15; n++) cluster.allocate("default", "node2");
  await using node = await openNode(cluster);
  const { source, ipam } = node;
  source.mostBlocks = 2;
  const [first, second] = await Promise.all([
    ipam.allocate(keyOf(1)),
    ipam.allocate(keyOf(2)),
  ]);
  assert.deepEqual([first, second].map(textOf), ["10.0.0.16", "10.0.0.17"]);
  assert.deepEqual(source.wanted, [2, 1]);
  assert.deepEqual(
    ipam.blocks().map(({ name, holds }) => [name, ...holds]).sort(),
    [
      ["default-15", "overlapping"],
      ["default-16"],
      ["default-17"],
      ["other-0", "reserved"],
    ],
  );
});

Deno.test("an answer without a block is a failure that passes", async () => {
  await using node = await openNode(singles("10.0.0.0/27"));
  const { source, ipam, clock } = node;
  source.auto = false;
  const waiting = ipam.allocate(keyOf(1));
  await settle();
  source.mostBlocks = 0;
  for (const call of source.pending) call.answer();
  await settle();
  source.mostBlocks = 1;
  source.auto = true;
  await clock.advance(200);
  assert.equal(textOf(await waiting), "10.0.0.0");
  source.mostBlocks = 0;
  const refused = assert.rejects(ipam.allocate(keyOf(2)), {
    message: 'Cannot get a block of pool "default": no block was received',
  });
  await clock.advance(10_000);
  await refused;
});

Deno.test("a rest from before the start is over in time, also for a block that comes afterwards", async () => {
  const resting = [{ address: Address.parse("10.0.0.0"), restedMs: 0 }];
  const outcomes: string[] = [];
  await using node = await openNode(singles("10.0.0.0/27"), {
    ...STRICT,
    resting,
    observer: { blockRequested: ({ outcome }) => void outcomes.push(outcome) },
  });
  await node.clock.advance(30_000);
  const given = await node.ipam.allocate(keyOf(1));
  assert.equal(textOf(given), "10.0.0.0");
  assert.deepEqual(outcomes, ["granted"]);
});

Deno.test("strict: an address that rests is not given, and the ADD says for how long", async () => {
  await using node = await openNode(singles("10.0.0.0/31"), STRICT);
  const { ipam, clock } = node;
  for (const n of [0, 1]) await ipam.allocate(keyOf(n));
  await release(ipam, 0);
  await clock.advance(5_000);
  await release(ipam, 1);
  const refused = assert.rejects(ipam.allocate(keyOf(2)), {
    name: "OutOfBlocksError",
    message:
      'Cannot get a block of pool "default": out of blocks; 2 of its addresses are in cooldown, the first for 15 s more',
  });
  await clock.advance(10_000);
  await refused;
});

Deno.test("strict: an ADD does not wait for the rest of an address that is not given afterwards", async () => {
  const cluster = singles("10.0.0.0/30");
  await using node = await openNode(cluster, STRICT);
  const { ipam, clock } = node;
  for (const n of [0, 1, 2, 3]) await ipam.allocate(keyOf(n));
  const pool = cluster.pools.get("default");
  assert.ok(pool);
  pool.reserved = parseReserved(["10.0.0.1"]);
  ipam.onPoolsChanged();
  cluster.edit("default-2", { deleting: true });
  ipam.onBlocksChanged(cluster.of("node1"));
  for (const n of [1, 2]) await release(ipam, n);
  await assert.rejects(ipam.allocate(keyOf(4)), OutOfBlocksError);
  await release(ipam, 3);
  const refused = assert.rejects(ipam.allocate(keyOf(4)), {
    message:
      'Cannot get a block of pool "default": out of blocks; 1 of its addresses are in cooldown, the first for 20 s more',
  });
  await clock.advance(10_000);
  await refused;
});

Deno.test("strict: an ADD gets the address whose rest ends while it waits, and asks for blocks no more often for that", async () => {
  await using node = await openNode(singles("10.0.0.0/31"), STRICT);
  const { ipam, clock, source } = node;
  for (const n of [0, 1]) await ipam.allocate(keyOf(n));
  await release(ipam, 1);
  await clock.advance(25_000);
  const { request } = source.counts;
  const waiting = ipam.allocate(keyOf(2));
  await clock.advance(4_999);
  assert.equal(ipam.lookup(keyOf(2)), undefined);
  await clock.advance(1);
  assert.equal(textOf(await waiting), "10.0.0.1");
  assert.ok(source.counts.request - request <= 2, "a request, and one again");
});

Deno.test("start() lets addresses rest on, in blocks of then and of later, but for those of pods", async () => {
  const cluster = new FakeCluster();
  cluster.addPool("default", 2, "10.0.0.0/29 fd00::/125");
  cluster.allocate("default", "node1");
  const rested = (text: string, restedMs: number) => ({
    address: Address.parse(text),
    restedMs,
  });
  const ipv4 = Address.parse("10.0.0.1");
  const ipv6 = Address.parse("fd00::1");
  await using node = await openNode(cluster, {
    ...STRICT,
    pods: [{ ...keyOf(1), addresses: { ipv4, ipv6 } }],
    resting: [
      rested("10.0.0.1", 0),
      rested("10.0.0.2", 20_000),
      rested("fd00::2", 10_000),
      rested("fd00::3", 30_000),
      rested("10.0.0.4", 0),
      rested("10.9.9.9", 0),
    ],
  });
  const { ipam, clock } = node;
  const given = async (n: number) => textOf(await ipam.allocate(keyOf(n)));
  const cooling = () => ipam.stats().map((pool) => pool.cooling);
  assert.deepEqual(cooling(), [1]);
  assert.equal(await given(2), "10.0.0.3 fd00::3");
  assert.equal(await given(3), "10.0.0.0 fd00::");
  assert.equal(await given(4), "10.0.0.5 fd00::5");
  assert.deepEqual(cooling(), [2]);
  await clock.advance(19_999);
  assert.deepEqual(cooling(), [2]);
  await clock.advance(1);
  assert.deepEqual(cooling(), [1]);
  assert.equal(await given(5), "10.0.0.2 fd00::2");
  await clock.advance(10_000);
  assert.deepEqual(cooling(), [0]);
});

/** A DEL during the start, before the first list of blocks is answered; then an ADD. */
async function addAfterEarlyDel(rest: Rest) {
  const cluster = singles("10.0.0.0/31");
  const clock = new FakeClock();
  const source = new FakeBlockSource(cluster, "node1");
  const routes = new FakeRoutes();
  cluster.allocate("default", "node1");
  const addresses = { ipv4: Address.parse("10.0.0.0") };
  const ipam = new NodeIpam({ source, routes, clock, ...STRICT, rest });
  source.auto = false;
  const { signal } = new AbortController();
  const started = ipam.start([{ ...keyOf(1), addresses }], { signal });
  await settle();
  await release(ipam, 1);
  await clock.advance(10_000);
  source.auto = true;
  for (const call of source.pending) call.answer();
  await started;
  return { ipam, clock, given: textOf(await ipam.allocate(keyOf(2))) };
}

Deno.test("strict: an address that is released before its block is known rests when that comes", async () => {
  const { ipam, clock, given } = await addAfterEarlyDel("strict");
  await using _ = ipam;
  assert.equal(given, "10.0.0.1");
  await clock.advance(20_000);
  assert.equal(textOf(await ipam.allocate(keyOf(3))), "10.0.0.0");
});

Deno.test("strict: a new block whose addresses all rest is no failure, and another one is asked for", async () => {
  const outcomes: string[] = [];
  await using node = await openNode(singles("10.0.0.0/31"), {
    ...STRICT,
    resting: [{ address: Address.parse("10.0.0.0"), restedMs: 0 }],
    observer: { blockRequested: ({ outcome }) => void outcomes.push(outcome) },
  });
  assert.equal(textOf(await node.ipam.allocate(keyOf(1))), "10.0.0.1");
  assert.deepEqual(outcomes, ["granted", "granted"]);
});

Deno.test("strict: an answer with a known block whose addresses rest is no grant, and the next request waits", async () => {
  const outcomes: string[] = [];
  await using node = await openNode(singles("10.0.0.0/31"), {
    ...STRICT,
    observer: { blockRequested: ({ outcome }) => void outcomes.push(outcome) },
  });
  const { ipam, source } = node;
  await ipam.allocate(keyOf(1));
  await release(ipam, 1);
  const { signal } = new AbortController();
  source.request = () => source.list({ signal });
  const adding = ipam.allocate(keyOf(2));
  await settle();
  adding.catch(() => {});
  assert.deepEqual(outcomes, ["granted", "error"]);
});

Deno.test("not strict: a block that comes is used at once, also after a release", async () => {
  const { ipam, given } = await addAfterEarlyDel("preferred");
  await using _ = ipam;
  assert.equal(given, "10.0.0.0");
});

Deno.test("blocks of a group go back by one call, without those that the kernel routes, and again after a failure", async () => {
  const cluster = singles("10.0.0.0/27");
  for (let n = 0; n < 4; n++) cluster.allocate("default", "node1");
  const returned: string[] = [];
  let routed = [Address.parse("10.0.0.1")];
  await using node = await openNode(cluster, {
    returnDelayMs: 1_000,
    kernel: { routedWithin: () => Promise.resolve(routed) },
    observer: {
      blockReturned: ({ block, ok }) => void returned.push(`${block} ${ok}`),
    },
  });
  const { source, clock } = node;
  const calls: string[] = [];
  source.releaseGroup = ({ index }) => (index < 3 ? "low" : "high");
  source.auto = false;
  const answer = async (work: (call: PendingCall) => void) => {
    for (const call of [...source.pending]) {
      calls.push(call.subject);
      work(call);
    }
    await settle();
  };
  await clock.advance(1_000);
  assert.deepEqual(returned, ["default-1 false"]);
  await answer((call) => call.fail(new Error("throttled")));
  assert.deepEqual(returned.slice(1).sort(), [
    "default-0 false",
    "default-2 false",
    "default-3 false",
  ]);
  routed = [];
  await clock.advance(2_000);
  await answer((call) => call.answer());
  await clock.advance(2_000);
  await answer((call) => call.answer());
  assert.deepEqual(node.ipam.blocks(), []);
  assert.deepEqual(calls.slice(0, 2).sort(), [
    "default-2 default-0",
    "default-3",
  ]);
  assert.deepEqual(calls.slice(2).join(" ").split(" ").sort(), [
    "default-0",
    "default-1",
    "default-2",
    "default-3",
  ]);
});
