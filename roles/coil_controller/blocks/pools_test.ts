import assert from "node:assert/strict";
import { type AddressBlock, type Pool, poolOf } from "../../../lib/api/mod.ts";
import {
  BlockRefusedError,
  OutOfBlocksError,
  PoolDeletingError,
  PoolPausedError,
} from "../../../lib/ipam/mod.ts";
import { KubeApiError, KubeClient, Store } from "../../../lib/kube/mod.ts";
import { FakeTransport } from "../../../lib/kube/testing.ts";
import { POOL_LABEL, REQUEST_LABEL } from "../../../lib/names/mod.ts";
import { BLOCK_INDEXES } from "../ipam/cluster.ts";
import { Pools } from "./pools.ts";
import type { CachedBlock } from "../ipam/transform.ts";

const POOL: Pool = poolOf({
  apiVersion: "coil.cybozu.com/v2",
  kind: "AddressPool",
  metadata: { name: "default" },
  spec: { blockSizeBits: 3, subnets: [{ ipv4: "10.64.0.0/26" }] },
});

/** The controller's blocks, as its informer would have them. */
class Blocks {
  readonly store = new Store<CachedBlock>(BLOCK_INDEXES);
  /** What the API server answers. */
  answer = 201;
  /** Milliseconds since the controller started. */
  nowMs = 40_000;
  readonly #transport = new FakeTransport(() => ({
    status: this.answer,
    body: {},
  }));
  readonly requests = this.#transport.requests;
  readonly pools = new Pools({
    client: new KubeClient(this.#transport),
    blocks: this.store,
    now: () => this.nowMs,
  });

  /** Each `NAME PREFIX INDEX`. */
  constructor(...lines: readonly string[]) {
    for (const line of lines) {
      const [name = "", ipv4 = "", index] = line.split(" ");
      const block: AddressBlock = {
        apiVersion: "coil.cybozu.com/v2",
        kind: "AddressBlock",
        metadata: { name, labels: { [POOL_LABEL]: "default" } },
        index: Number(index),
        ipv4,
      };
      this.store.set(name, block);
    }
    this.pools.sync(POOL, this.store.list().map(({ index }) => index));
    this.pools.open([]);
  }

  free(name: string): void {
    const change = this.store.delete(name);
    assert.ok(change);
    this.pools.freed(change.object);
  }

  async next(requestUid: string): Promise<string> {
    const { signal } = new AbortController();
    const options = { node: "n1", requestUid, signal };
    return await this.pools.allocate(POOL, options);
  }
}

Deno.test("Pools.freed() keeps an index that another block of the pool has", async () => {
  for (
    const [gone, ...rest] of [
      ["default-0-v1-10.64.0.0-30", "default-0-v1"],
      ["default-0-v1", "default-0-v1-10.64.0.0-30"],
      ["default-0-v1-n2", "default-0-v1"],
      ["default-0-v1", "default-0"],
      ["default-0", "default-0-v1"],
    ]
  ) {
    const names = [gone ?? "", ...rest];
    const blocks = new Blocks(
      ...names.map((name) =>
        `${name} ${name.endsWith("-30") ? "10.64.0.0/30" : "10.64.0.0/29"} 0`
      ),
    );
    blocks.free(gone ?? "");
    assert.equal(await blocks.next("r1"), "default-1", `${gone} is gone`);
    for (const name of rest) blocks.free(name);
    assert.equal(await blocks.next("r2"), "default-0", "all are gone");
  }
});

Deno.test("Pools.freed() looks at blocks of the same pool and index alone", async () => {
  const blocks = new Blocks(
    "default-0-v1 10.64.0.0/29 0",
    "default-1-v1 10.64.0.8/29 1",
    "default-10-v1 10.64.0.80/29 10",
  );
  blocks.free("default-1-v1");
  assert.equal(await blocks.next("r1"), "default-1");
});

Deno.test("Pools.sync() goes through all blocks only where it has lost count, and every half a minute", async () => {
  const blocks = new Blocks("default-0 10.64.0.0/29 0");
  blocks.nowMs += 29_000;
  blocks.pools.sync(POOL, [1]);
  assert.equal(await blocks.next("r1"), "default-1");
  const later = new Blocks("default-0 10.64.0.0/29 0");
  later.nowMs += 31_000;
  later.pools.sync(POOL, [1]);
  assert.equal(await later.next("r1"), "default-0");
  const recounted = new Blocks("default-0 10.64.0.0/29 0");
  recounted.pools.sync(POOL, [1, 2]);
  assert.equal(await recounted.next("r1"), "default-0");
});

Deno.test("Pools.seen() skips a block that another client has created", async () => {
  const blocks = new Blocks("default-5 10.64.0.40/29 5");
  const other: AddressBlock = {
    apiVersion: "coil.cybozu.com/v2",
    kind: "AddressBlock",
    metadata: { name: "default-0", labels: { [POOL_LABEL]: "default" } },
    index: 0,
    ipv4: "10.64.0.0/29",
  };
  blocks.store.set("default-0", other);
  blocks.pools.seen(other);
  assert.equal(await blocks.next("r1"), "default-1");
});

for (
  const [whose, uid, isRead] of [
    ["of the same request", "r1", false],
    ["of another request", "r2", true],
    ["of no request", undefined, true],
  ] as const
) {
  Deno.test(`Pools.create() ${isRead ? "reads the pool again" : "reads nothing more"} when the block is there ${whose}`, async () => {
    const labels = { [POOL_LABEL]: "default" };
    const live = {
      metadata: {
        name: "default-0",
        labels: { ...labels, ...(uid && { [REQUEST_LABEL]: uid }) },
      },
    };
    const transport = new FakeTransport(({ method, path }) =>
      method === "POST"
        ? { status: 409, body: { kind: "Status", reason: "AlreadyExists" } }
        : path.endsWith("/default-0")
        ? { body: live }
        : { body: { metadata: { resourceVersion: "1" }, items: [] } }
    );
    const pools = new Pools({
      client: new KubeClient(transport),
      blocks: new Store<CachedBlock>(BLOCK_INDEXES),
    });
    const { signal } = new AbortController();
    const block: AddressBlock = {
      apiVersion: "coil.cybozu.com/v2",
      kind: "AddressBlock",
      metadata: {
        name: "default-0",
        labels: { ...labels, [REQUEST_LABEL]: "r1" },
      },
      index: 0,
    };
    assert.deepEqual(await pools.create(block, { signal }), {
      created: false,
      requestUid: uid,
    });
    const lists = transport.requests.filter(({ path }) => path.includes("?"));
    assert.equal(lists.length, isRead ? 1 : 0);
  });
}

Deno.test("Pools.allocate() passes over all blocks of the pool that the cache has not shown, once one is found", async () => {
  const listed = [0, 1, 2].map((index) => ({
    metadata: { name: `default-${index}`, labels: { [POOL_LABEL]: "default" } },
    index,
  }));
  const posts: string[] = [];
  const transport = new FakeTransport(({ method, path, body }) => {
    if (method === "POST") {
      const { metadata: { name } } = JSON.parse(body ?? "{}");
      posts.push(name);
      return name === "default-0"
        ? { status: 409, body: { kind: "Status", reason: "AlreadyExists" } }
        : { status: 201, body: {} };
    }
    return path.includes("?")
      ? { body: { metadata: { resourceVersion: "1" }, items: listed } }
      : { body: listed[0] };
  });
  const pools = new Pools({
    client: new KubeClient(transport),
    blocks: new Store<CachedBlock>(BLOCK_INDEXES),
  });
  const { signal } = new AbortController();
  const options = { node: "n1", requestUid: "r1", signal };
  assert.equal(await pools.allocate(POOL, options), "default-3");
  assert.deepEqual(posts, ["default-0", "default-3"]);
});

/** An API server whose lists have a block that no informer has: `POOL-0` of each pool that is named. */
class LeaderChange {
  readonly names = new Set<string>();
  readonly lists: string[] = [];
  readonly posts: string[] = [];
  status = 200;
  /** Called while a list is under way. */
  onList: () => void = () => {};
  readonly pools = new Pools({
    client: new KubeClient(
      new FakeTransport(({ method, path, body }) => {
        if (method === "POST") {
          this.posts.push(JSON.parse(body ?? "{}").metadata.name);
          return { status: 201, body: {} };
        }
        const pool = /pool%3D([a-z]+)/.exec(path)?.[1] ?? "";
        this.lists.push(pool);
        this.onList();
        const items = this.names.has(pool)
          ? [{ metadata: { name: `${pool}-0` }, index: 0 }]
          : [];
        const metadata = { resourceVersion: "1" };
        return { status: this.status, body: { metadata, items } };
      }),
    ),
    blocks: new Store<CachedBlock>(BLOCK_INDEXES),
  });

  async next(requestUid: string, pool: Pool = POOL): Promise<string> {
    const { signal } = new AbortController();
    return await this.pools.allocate(pool, { node: "n1", requestUid, signal });
  }
}

Deno.test("Pools.allocate() avoids the former leader's last block of an overlapping pool, which the cache lacks", async () => {
  const change = new LeaderChange();
  const { pools, names, lists } = change;
  const other = { ...POOL, name: "other", uid: "u2" };
  names.add("other");
  pools.sync(POOL, []);
  pools.sync(other, []);
  assert.equal(await change.next("r1"), "default-1");
  // The informer is still behind.
  pools.sync(other, []);
  assert.equal(await change.next("r2"), "default-2");
  assert.deepEqual(lists, ["other"], "once");
  pools.drop("other");
  pools.sync(other, []);
  await change.next("r3");
  assert.deepEqual(lists, ["other", "other"], "another pool of that name");
});

Deno.test("Pools.allocate() creates nothing in an overlapping pool before the other one's blocks are known", async () => {
  const change = new LeaderChange();
  const { pools, names, posts } = change;
  names.add("other");
  pools.sync(POOL, []);
  pools.sync({ ...POOL, name: "other", uid: "u2" }, []);
  change.status = 403;
  await assert.rejects(change.next("r1"), KubeApiError);
  assert.deepEqual(posts, []);
  change.status = 200;
  assert.equal(await change.next("r1"), "default-1");
});

Deno.test("Pools.allocate() goes by what the pool has become while the other one's blocks were read", async () => {
  for (
    const [become, error] of [
      [(pools: Pools) => pools.drop("default"), PoolDeletingError],
      [
        (pools: Pools) => pools.sync({ ...POOL, deleting: true }, []),
        PoolDeletingError,
      ],
      [
        (pools: Pools) => pools.sync({ ...POOL, paused: true }, []),
        PoolPausedError,
      ],
    ] as const
  ) {
    const change = new LeaderChange();
    const { pools, posts } = change;
    pools.sync(POOL, []);
    pools.sync({ ...POOL, name: "other", uid: "u2" }, []);
    change.onList = () => become(pools);
    await assert.rejects(change.next("r1"), error);
    assert.deepEqual(posts, []);
  }
});

Deno.test("Pools.allocate() reads a pool, too, that has come to overlap while another one's blocks were read", async () => {
  const change = new LeaderChange();
  const { pools, names, lists } = change;
  names.add("second");
  pools.sync(POOL, []);
  pools.sync({ ...POOL, name: "first", uid: "u2" }, []);
  change.onList = () => {
    change.onList = () => {};
    pools.sync({ ...POOL, name: "second", uid: "u3" }, []);
  };
  assert.equal(await change.next("r1"), "default-1");
  assert.deepEqual(lists, ["first", "second"]);
});

Deno.test("Pools.allocate() reads the blocks of a pool again that was deleted while they were read, and made again", async () => {
  const change = new LeaderChange();
  const { pools, names, lists } = change;
  const other = { ...POOL, name: "other", uid: "u2" };
  pools.sync(POOL, []);
  pools.sync(other, []);
  change.onList = () => pools.drop("other");
  assert.equal(await change.next("r1"), "default-0");
  change.onList = () => {};
  names.add("other");
  pools.sync(other, []);
  pools.drop("default");
  assert.equal(await change.next("r2"), "default-1");
  assert.deepEqual(lists, ["other", "other"]);
});

Deno.test("Pools.allocate() lists a pool whose own subnets overlap, and none that overlaps no other", async () => {
  const change = new LeaderChange();
  const { names, lists } = change;
  const apart = poolOf({
    apiVersion: "coil.cybozu.com/v2",
    kind: "AddressPool",
    metadata: { name: "apart" },
    spec: { blockSizeBits: 3, subnets: [{ ipv4: "10.65.0.0/26" }] },
  });
  const twice = poolOf({
    apiVersion: "coil.cybozu.com/v2",
    kind: "AddressPool",
    metadata: { name: "twice" },
    spec: {
      blockSizeBits: 3,
      subnets: [{ ipv4: "10.66.0.0/29" }, { ipv4: "10.66.0.0/28" }],
    },
  });
  names.add("twice");
  change.pools.sync(apart, []);
  change.pools.sync(twice, []);
  assert.equal(await change.next("r1", apart), "apart-0");
  assert.deepEqual(lists, []);
  assert.equal(await change.next("r2", twice), "twice-2");
  assert.deepEqual(lists, ["twice"]);
});

Deno.test("Pools.allocate() finds blocks that came back when the pool seemed to be used up, and reports other failures at once", async () => {
  const names = Array.from(
    { length: 8 },
    (_, n) => `default-${n} 10.64.0.${8 * n}/29 ${n}`,
  );
  const blocks = new Blocks(...names);
  // Its deletion is in the cache, and no event came.
  blocks.store.delete("default-6");
  assert.equal(await blocks.next("r1"), "default-6");
  await assert.rejects(blocks.next("r2"), OutOfBlocksError);
  const refused = new Blocks();
  refused.answer = 403;
  await assert.rejects(refused.next("r1"), KubeApiError);
  assert.equal(refused.requests.length, 1);
  refused.answer = 422;
  await assert.rejects(refused.next("r2"), BlockRefusedError);
});

Deno.test("Pools.drop() forgets what the pool shared with others", () => {
  const { pools } = new Blocks();
  pools.sync({ ...POOL, name: "other", uid: "u2" }, []);
  assert.deepEqual(pools.neighbours("other"), ["default"]);
  pools.drop("default");
  assert.deepEqual(pools.neighbours("other"), []);
});
