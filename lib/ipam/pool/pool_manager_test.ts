import assert from "node:assert/strict";
import fc from "fast-check";
import {
  type AddressBlock,
  parseReserved,
  type Pool,
  poolOf,
} from "../../api/mod.ts";
import { settle } from "../../async/testing.ts";
import { Prefix } from "../../inet/mod.ts";
import { FINALIZER, NODE_LABEL, POOL_LABEL } from "../../names/mod.ts";
import {
  BlockRefusedError,
  OutOfBlocksError,
  PoolDeletingError,
  PoolPausedError,
} from "../base/errors.ts";
import { type BlockStore, type Creation, PoolManager } from "./pool_manager.ts";

const signal = new AbortController().signal;

/** An API server with blocks, whose answers can be delayed or lost. */
class FakeStore implements BlockStore {
  readonly blocks = new Map<string, AddressBlock>();
  /** What `list` does not show yet, by name. */
  readonly hidden = new Set<string>();
  creations = 0;
  lists = 0;
  /** Called with each creation, before it is carried out. */
  before: (block: AddressBlock) => Promise<void> = () => Promise.resolve();
  /** Called after it, before the answer. */
  after: (block: AddressBlock) => Promise<void> = () => Promise.resolve();

  list(pool: string): Promise<number[]> {
    this.lists++;
    return Promise.resolve(this.indices(pool));
  }

  indices(pool: string): number[] {
    return [...this.blocks.values()]
      .filter(({ metadata: { labels, name } }) =>
        labels?.[POOL_LABEL] === pool && !this.hidden.has(name ?? "")
      )
      .map(({ index }) => index);
  }

  async create(block: AddressBlock): Promise<Creation> {
    this.creations++;
    await this.before(block);
    const name = block.metadata.name ?? "";
    const found = this.blocks.get(name);
    if (found === undefined) this.blocks.set(name, block);
    await this.after(block);
    const requestUid = found?.metadata.labels?.["coil.cybozu.com/request"];
    return found === undefined
      ? { created: true }
      : { created: false, requestUid };
  }
}

function poolNamed(
  name: string,
  blockSizeBits: number,
  subnets: { ipv4?: string; ipv6?: string }[],
): Pool {
  return poolOf({
    apiVersion: "coil.cybozu.com/v2",
    kind: "AddressPool",
    metadata: { name, uid: `uid-of-${name}` },
    spec: { blockSizeBits, subnets },
  });
}

/** The pools of upstream's `pkg/ipam/pool_test.go`. */
const DUAL = poolNamed("default", 1, [
  { ipv4: "10.2.0.0/29", ipv6: "fd02::200/125" },
  { ipv4: "10.3.0.0/30", ipv6: "fd02::300/126" },
]);
const V4 = poolNamed("v4", 2, [{ ipv4: "10.4.0.0/29" }]);

function open() {
  const store = new FakeStore();
  const clock = { now: 1_000_000 };
  const manager = new PoolManager({ store, now: () => clock.now });
  let uid = 0;
  const allocate = (
    pool: Pool,
    { node = "node1", requestUid = `request-${++uid}` } = {},
  ) => manager.allocate(pool, { node, requestUid, signal });
  return { store, clock, manager, allocate };
}

Deno.test("PM-1, PM-2: the first block of a pool", async () => {
  const { store, manager, allocate } = open();
  assert.deepEqual(store.indices("default"), []);
  assert.equal(await allocate(DUAL), "default-0");
  const block = store.blocks.get("default-0");
  assert.equal(block?.index, 0);
  assert.equal(block?.ipv4, "10.2.0.0/31");
  assert.equal(block?.ipv6, "fd02::200/127");
  assert.equal(block?.metadata.labels?.[POOL_LABEL], "default");
  assert.equal(block?.metadata.labels?.[NODE_LABEL], "node1");
  assert.deepEqual(block?.metadata.finalizers, [FINALIZER]);
  const last = { pool: "default", maxBlocks: 6, allocatedBlocks: 1 };
  assert.deepEqual(manager.counts(DUAL), last);
});

Deno.test("allocate() creates nothing for a request that was given up", async () => {
  const { store, manager } = open();
  const request = {
    node: "node1",
    requestUid: "r",
    signal: AbortSignal.abort(),
  };
  await assert.rejects(manager.allocate(DUAL, request), { name: "AbortError" });
  assert.equal(store.creations, 0);
});

Deno.test("PM-3, PM-4, PM-5: used up, and the lowest free index again", async () => {
  const { store, manager, allocate } = open();
  for (let i = 0; i < 6; i++) await allocate(DUAL);
  assert.equal(manager.counts(DUAL).allocatedBlocks, 6);
  await assert.rejects(allocate(DUAL), OutOfBlocksError);
  assert.equal(store.lists, 1);

  store.blocks.delete("default-4");
  manager.sync(DUAL, store.indices("default"));
  assert.equal(manager.counts(DUAL).allocatedBlocks, 6, "seen by no list yet");
  manager.sync(DUAL, [0, 1, 2, 3, 4, 5]);
  manager.sync(DUAL, store.indices("default"));
  assert.equal(manager.counts(DUAL).allocatedBlocks, 5);
  assert.equal(await allocate(DUAL, { node: "node2" }), "default-4");
  assert.equal(store.blocks.get("default-4")?.ipv4, "10.3.0.0/31");
  assert.equal(store.blocks.get("default-4")?.ipv6, "fd02::300/127");

  store.blocks.clear();
  manager.sync(DUAL, []);
  assert.deepEqual(store.indices("default"), []);
});

Deno.test("PM-6: an IPv4 pool", async () => {
  const { store, manager, allocate } = open();
  assert.equal(await allocate(V4), "v4-0");
  assert.equal(await allocate(V4), "v4-1");
  assert.equal(store.blocks.get("v4-1")?.ipv4, "10.4.0.4/30");
  assert.equal(store.blocks.get("v4-1")?.ipv6, undefined);
  await assert.rejects(allocate(V4), OutOfBlocksError);
  manager.sync(V4, [0, 1]);
  store.blocks.delete("v4-1");
  manager.sync(V4, [0]);
  assert.equal(await allocate(V4), "v4-1");
});

Deno.test("exists-wedge (coil#152): a block that the cache lacks costs one more try", async () => {
  const former = open();
  await former.allocate(DUAL, { requestUid: "made by the former leader" });
  const { store, allocate } = open();
  for (const [name, block] of former.store.blocks) {
    store.blocks.set(name, block);
  }
  store.hidden.add("default-0");
  assert.equal(await allocate(DUAL), "default-1");
  assert.equal(store.creations, 2);
  assert.equal(await allocate(DUAL), "default-2");
  assert.equal(store.creations, 3);
});

Deno.test("W27: concurrent requests never try the same index, and none waits for another", async () => {
  const { store, allocate } = open();
  const gate = Promise.withResolvers<void>();
  const tried: number[] = [];
  store.before = (block) => {
    tried.push(block.index);
    return gate.promise;
  };
  const all = Array.from({ length: 8 }, () => allocate(DUAL));
  const settled = Promise.allSettled(all);
  for (let i = 0; i < 20; i++) await Promise.resolve();
  assert.deepEqual(tried, [0, 1, 2, 3, 4, 5]);
  gate.resolve();
  const outcomes = await settled;
  assert.equal(outcomes.filter((o) => o.status === "fulfilled").length, 6);
  assert.equal(new Set(tried).size, 6);
});

Deno.test("a list that comes late does not undo what happened since", async () => {
  const { store, manager, allocate } = open();
  const late = Promise.withResolvers<number[]>();
  const lists = [Promise.resolve([0]), late.promise];
  store.list = () => lists.shift() ?? Promise.resolve([]);
  const [first, second] = [allocate(V4), allocate(V4)];
  assert.equal(await first, "v4-1");
  manager.freed("v4", 0);
  late.resolve([0]);
  assert.equal(await second, "v4-0");
});

Deno.test("a request whose answer was lost gets nothing beyond a pool that has shrunk", async () => {
  const { store, allocate } = open();
  await allocate(V4);
  store.before = () => Promise.reject(new Error("server is down"));
  await assert.rejects(allocate(V4, { requestUid: "r" }), /server is down/);
  store.before = () => Promise.resolve();
  const shrunk = poolNamed("v4", 2, [{ ipv4: "10.4.0.0/30" }]);
  await assert.rejects(
    allocate(shrunk, { requestUid: "r" }),
    OutOfBlocksError,
  );
});

Deno.test("two-blocks (coil#271): a request whose answer was lost gets the same block again", async () => {
  const { store, manager, allocate } = open();
  store.after = () => Promise.reject(new Error("connection lost"));
  await assert.rejects(allocate(DUAL, { requestUid: "r" }), /connection lost/);
  store.after = () => Promise.resolve();
  manager.sync(DUAL, []);
  // Somebody else comes first: it must not take the index that is in doubt.
  assert.equal(await allocate(DUAL), "default-1");
  assert.equal(await allocate(DUAL, { requestUid: "r" }), "default-0");
  assert.equal(store.blocks.size, 2);
});

Deno.test("a failed creation gives its index back when nobody asks again", async () => {
  const { store, clock, manager, allocate } = open();
  store.before = () => Promise.reject(new Error("server is down"));
  await assert.rejects(allocate(DUAL, { requestUid: "r" }));
  store.before = () => Promise.resolve();
  clock.now += 61_000;
  manager.sync(DUAL, []);
  assert.equal(await allocate(DUAL), "default-0");
});

Deno.test("deleting-pool (coil#284): a pool that is being deleted gives nothing", async () => {
  const { store, allocate } = open();
  await assert.rejects(
    allocate({ ...DUAL, deleting: true }),
    PoolDeletingError,
  );
  assert.equal(store.creations, 0);
});

Deno.test("a pool that is paused gives nothing", async () => {
  const { store, allocate } = open();
  await assert.rejects(allocate({ ...DUAL, paused: true }), PoolPausedError);
  assert.equal(store.creations, 0);
});

Deno.test("a block of which all is reserved is passed over, and one of which some is left is not", async () => {
  const { manager, allocate } = open();
  const v4 = {
    ...poolNamed("v4", 2, [{ ipv4: "10.2.0.0/27" }]),
    reserved: parseReserved(["10.2.0.0-10.2.0.7", "10.2.0.9-10.2.0.18"]),
  };
  manager.sync(v4, [5, 6, 7]);
  assert.equal(manager.counts(v4).maxBlocks, 5);
  assert.equal(await allocate(v4), "v4-2", "10.2.0.8 is left");
  assert.equal(await allocate(v4), "v4-4", "10.2.0.19 is left");
  await assert.rejects(allocate(v4), OutOfBlocksError);
  assert.equal(await allocate({ ...v4, reserved: [] }), "v4-0");
});

Deno.test("big-pool (spider#3541): a /8 and a /48 work like small ones", async () => {
  const { manager, store, allocate } = open();
  const v4 = poolNamed("v4", 5, [{ ipv4: "10.0.0.0/8" }]);
  assert.equal(await allocate(v4), "v4-0");
  assert.equal(manager.counts(v4).maxBlocks, 2 ** 19);

  const v6 = poolNamed("v6", 5, [{ ipv6: "2001:db8:1::/48" }]);
  const used = Array.from({ length: 50_000 }, (_, i) => i);
  manager.sync(v6, used);
  assert.equal(await allocate(v6), "v6-50000");
  assert.equal(store.blocks.get("v6-50000")?.ipv6, "2001:db8:1::18:6a00/123");
  assert.equal(manager.counts(v6).maxBlocks, 2 ** 31);
});

Deno.test("a pool that has grown gives the blocks of its new subnet", async () => {
  const { allocate } = open();
  for (let i = 0; i < 2; i++) await allocate(V4);
  const grown = poolNamed("v4", 2, [
    { ipv4: "10.4.0.0/29" },
    { ipv4: "10.9.0.0/30" },
  ]);
  assert.equal(await allocate(grown), "v4-2");
});

Deno.test("no index has two blocks, and all can be had, with stale lists and failing calls", async () => {
  const step = fc.record({
    kind: fc.constantFrom(
      "allocate",
      "delete",
      "stale",
      "sync",
      "lose",
      "fail",
    ),
    pick: fc.nat(),
  });
  await fc.assert(fc.asyncProperty(
    fc.array(step, { maxLength: 60 }),
    async (steps) => {
      const { store, clock, manager, allocate } = open();
      let stale: number[] = [];
      const owners = new Map<string, string>();
      let uid = 0;
      for (const { kind, pick } of steps) {
        const requestUid = `r${kind === "lose" ? pick % 5 : ++uid}`;
        if (kind === "stale") stale = store.indices("default");
        else if (kind === "sync") {
          manager.sync(DUAL, pick % 2 ? stale : store.indices("default"));
        } else if (kind === "delete") {
          const name = [...store.blocks.keys()].at(pick % 6);
          if (name) store.blocks.delete(name);
          if (name) owners.delete(name);
        } else {
          if (kind === "lose") store.after = () => Promise.reject(new Error());
          if (kind === "fail") store.before = () => Promise.reject(new Error());
          const name = await allocate(DUAL, { requestUid }).catch(() =>
            undefined
          );
          store.after = store.before = () => Promise.resolve();
          if (name === undefined) continue;
          // The same block may be answered twice only to the same request.
          assert.ok([undefined, requestUid].includes(owners.get(name)), name);
          owners.set(name, requestUid);
        }
      }
      clock.now += 120_000;
      manager.sync(DUAL, store.indices("default"));
      while (store.blocks.size < 6) await allocate(DUAL);
      await assert.rejects(allocate(DUAL), OutOfBlocksError);
    },
  ));
});

Deno.test("isCarving() is true while a block is being created, also when that fails", async () => {
  const { store, manager, allocate } = open();
  assert.equal(manager.isCarving("v4"), false);
  const gate = Promise.withResolvers<void>();
  store.before = () => gate.promise;
  const all = Promise.allSettled([allocate(V4), allocate(V4)]);
  await settle();
  assert.equal(manager.isCarving("v4"), true);
  gate.reject(new Error("the server is away"));
  await all;
  assert.equal(manager.isCarving("v4"), false);
});

Deno.test("a block elsewhere than its index says is passed over, and reported", async () => {
  const { manager, allocate } = open();
  manager.sync(V4, []);
  const ipv4 = Prefix.parse("10.4.0.0/30");
  assert.deepEqual(manager.overlaps.setMisplaced("v1-0", { ipv4 }), ["v4"]);
  assert.deepEqual(manager.overlaps.of("v4")?.misplaced, ["v1-0"]);
  assert.equal(await allocate(V4), "v4-1");
});

Deno.test("a pool that is dropped has no blocks", async () => {
  const { manager, allocate } = open();
  await allocate(V4);
  assert.equal(manager.counts(V4).allocatedBlocks, 1);
  manager.drop("v4");
  assert.equal(manager.counts(V4).allocatedBlocks, 0);
});

Deno.test("PoolManager.freed() gives an index again at once, but not one that is being created", async () => {
  const { store, manager, allocate } = open();
  await allocate(V4);
  await allocate(V4);
  store.blocks.delete("v4-0");
  await assert.rejects(allocate(V4), OutOfBlocksError);
  manager.freed("v4", 0);
  assert.equal(await allocate(V4), "v4-0");

  store.blocks.delete("v4-1");
  manager.freed("v4", 1);
  const creating = Promise.withResolvers<void>();
  store.before = () => creating.promise;
  const first = allocate(V4);
  manager.freed("v4", 1); // the deletion of the former block, told late
  await assert.rejects(allocate(V4), OutOfBlocksError);
  creating.resolve();
  assert.equal(await first, "v4-1");
  manager.freed("unknown", 0);
});

Deno.test("W28: pools that overlap never allocate the same addresses, at once neither", async () => {
  const { store, manager, allocate } = open();
  const other = poolNamed("other", 1, [{ ipv4: "10.4.0.0/29" }]);
  for (const pool of [V4, other]) manager.sync(pool, []);
  const gate = Promise.withResolvers<void>();
  store.before = () => gate.promise;
  const all = Promise.all([allocate(V4), allocate(other), allocate(other)]);
  await Promise.resolve();
  gate.resolve();
  assert.deepEqual(await all, ["v4-0", "other-2", "other-3"]);
  await assert.rejects(allocate(V4), OutOfBlocksError);
  await assert.rejects(allocate(other), OutOfBlocksError);
  assert.deepEqual(manager.overlaps.neighbours("v4"), ["other"]);

  manager.drop("other");
  assert.equal(manager.overlaps.of("v4"), undefined);
  assert.equal(await allocate(V4), "v4-1");
});

Deno.test("a block that is refused for good gives its index back at once", async () => {
  const { store, allocate } = open();
  store.before = () => Promise.reject(new BlockRefusedError("too long"));
  await assert.rejects(allocate(V4, { requestUid: "r" }), BlockRefusedError);
  store.before = () => Promise.resolve();
  assert.equal(await allocate(V4), "v4-0");
});

Deno.test("a block that others made is passed over before a list shows it", async () => {
  const { store, manager, allocate } = open();
  manager.sync(V4, []);
  manager.noted("v4", 0);
  manager.sync(V4, []);
  manager.noted("unknown", 0);
  assert.equal(await allocate(V4), "v4-1");
  assert.equal(store.creations, 1);
});
