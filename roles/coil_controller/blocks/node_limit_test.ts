import assert from "node:assert/strict";
import { type Pool, poolOf } from "../../../lib/api/mod.ts";
import { type KubeClient, NODES } from "../../../lib/kube/mod.ts";
import { NodeLimit, NodeLimitError } from "./node_limit.ts";
import type { CachedBlock } from "../ipam/transform.ts";

const signal = new AbortController().signal;

function pool(blockSizeBits: number): Pool {
  return poolOf({
    apiVersion: "coil.cybozu.com/v2",
    kind: "AddressPool",
    metadata: { name: "p", uid: "u" },
    spec: { blockSizeBits, subnets: [{ ipv4: "10.0.0.0/8" }] },
  });
}

/** An informer that shows the given blocks, and the reads of Nodes. */
function setUp(
  options: { factor?: number; pods?: string; maxPods?: number } = {},
) {
  const shown = new Map<string, CachedBlock>();
  const node = { pods: options.pods ?? "110" };
  const reads: string[] = [];
  const said: string[] = [];
  const tryGet = (type: unknown, { name }: { name: string }) => {
    assert.equal(type, NODES);
    reads.push(name);
    return Promise.resolve({
      status: { allocatable: { pods: node.pods } },
    });
  };
  let nowMs = 0;
  const limit = new NodeLimit({
    client: { tryGet: tryGet as unknown as KubeClient["tryGet"] },
    blocks: {
      get: (name) => shown.get(name),
      byIndex: (_index, node) =>
        [...shown.values()].filter(({ metadata }) =>
          metadata.labels?.["coil.cybozu.com/node"] === node
        ),
    },
    factor: options.factor ?? 2,
    maxPods: options.maxPods ?? 1000,
    reports: {
      disbelieved: ({ node, message }) => said.push(`${node}: ${message}`),
    },
    now: () => nowMs,
  });
  const show = (name: string, index: number) =>
    shown.set(name, {
      apiVersion: "coil.cybozu.com/v2",
      kind: "AddressBlock",
      metadata: {
        name,
        labels: { "coil.cybozu.com/pool": "p", "coil.cybozu.com/node": "n" },
      },
      index,
    });
  return {
    limit,
    shown,
    reads,
    said,
    show,
    node,
    pass: (ms: number) => nowMs += ms,
  };
}

const ask = { node: "n", signal };

async function takeAll(
  limit: NodeLimit,
  of: Pool,
  from = 0,
): Promise<number> {
  for (let n = 0; n < 1000; n++) {
    try {
      using seat = await limit.take(of, ask);
      seat.allocated(`p-${from + n}`);
    } catch (error) {
      assert.ok(error instanceof NodeLimitError);
      return n;
    }
  }
  return 1000;
}

Deno.test("NodeLimit counts blocks that the informer does not show yet", async () => {
  const { limit } = setUp();
  assert.equal(await takeAll(limit, pool(5)), 11);
});

Deno.test("NodeLimit counts each block once, shown or not, and forgets those that are gone", async () => {
  const { limit, show, shown } = setUp();
  assert.equal(await takeAll(limit, pool(5)), 11);
  for (let n = 0; n < 11; n++) show(`p-${n}`, n);
  assert.equal(await takeAll(limit, pool(5)), 0);
  shown.delete("p-3");
  assert.equal(await takeAll(limit, pool(5), 100), 1);
});

Deno.test("NodeLimit: a block that came and went unseen is settled by its event, else by time", async () => {
  const { limit, pass } = setUp();
  await takeAll(limit, pool(5));
  limit.settled("p-0", ask);
  assert.equal(await takeAll(limit, pool(5)), 1);
  pass(61_000);
  assert.equal(await takeAll(limit, pool(5)), 11);
});

Deno.test("NodeLimit: requests at once do not get more, and those without a block give their seat back", async () => {
  const { limit } = setUp();
  const all = await Promise.allSettled(
    Array.from({ length: 50 }, () => limit.take(pool(5), ask)),
  );
  const seats = all.flatMap((r) => r.status === "fulfilled" ? [r.value] : []);
  assert.equal(seats.length, 11);
  for (const seat of seats) seat[Symbol.dispose]();
  assert.equal(await takeAll(limit, pool(5)), 11);
});

Deno.test("NodeLimit reads the Node only beyond the usual number of pods, and not each time", async () => {
  const { limit, reads } = setUp({ pods: "250" });
  assert.equal(await takeAll(limit, pool(5)), 20);
  assert.equal(await takeAll(limit, pool(5)), 0);
  assert.deepEqual(reads, ["n"]);
  const small = setUp({ pods: "10" });
  assert.equal(await takeAll(small.limit, pool(0)), 224);
});

Deno.test("NodeLimit reads the number of pods as the API server writes it", async () => {
  for (const [pods, blocks] of [["1k", 67], ["0.5k", 36], ["250", 20]]) {
    const { limit, said } = setUp({ pods: String(pods) });
    assert.equal(await takeAll(limit, pool(5)), blocks, String(pods));
    assert.deepEqual(said, []);
  }
  for (const pods of ["many", "-5", "", "1e-400"]) {
    const { limit } = setUp({ pods });
    assert.equal(await takeAll(limit, pool(5)), 11, pods);
  }
});

Deno.test("NodeLimit believes no Node more than the largest number of pods, and says so once", async () => {
  const { limit, said, pass, node } = setUp({ pods: "999999", maxPods: 250 });
  assert.equal(await takeAll(limit, pool(5)), 20);
  pass(301_000);
  assert.equal(await takeAll(limit, pool(5), 100), 20);
  assert.equal(said.length, 1);
  assert.match(
    said[0] ?? "",
    /^n: Node "n" allows 999999 pods, .*250: if the number is right, raise --max-pods-per-node/,
  );
  node.pods = "1e999";
  pass(301_000);
  assert.equal(await takeAll(limit, pool(5), 200), 20);
  assert.equal(said.length, 1);
  node.pods = "250";
  pass(301_000);
  assert.equal(await takeAll(limit, pool(5), 300), 20);
  node.pods = "251";
  pass(301_000);
  assert.equal(await takeAll(limit, pool(5), 400), 20);
  assert.equal(said.length, 2);
});

Deno.test("NodeLimit leaves out blocks of v1, and limits nothing with factor 0", async () => {
  const { limit, show } = setUp();
  for (let n = 0; n < 50; n++) show(`p-${n}-v1`, n);
  assert.equal(await takeAll(limit, pool(5)), 11);
  assert.equal(await takeAll(setUp({ factor: 0 }).limit, pool(5)), 1000);
});

Deno.test("NodeLimit: a block that the informer shows before its creation is answered counts once", async () => {
  const { limit, show, shown } = setUp();
  for (let n = 0; n < 9; n++) show(`p-${n}`, n);
  using seat = await limit.take(pool(5), ask);
  seat.allocating("p-9");
  show("p-9", 9);
  limit.settled("p-9", ask);
  {
    using _last = await limit.take(pool(5), ask);
    await assert.rejects(limit.take(pool(5), ask), /holds 11 blocks/);
  }
  seat.allocated("p-9");
  shown.delete("p-9");
  limit.settled("p-9", ask);
  using _other = await limit.take(pool(5), ask);
});

Deno.test("NodeLimit keeps nothing of a block that was shown before its creation is answered", async () => {
  const { limit, show, shown } = setUp();
  for (let n = 0; n < 11; n++) {
    using seat = await limit.take(pool(5), ask);
    seat.allocating(`p-${n}`);
    show(`p-${n}`, n);
    limit.settled(`p-${n}`, ask);
    seat.allocated(`p-${n}`);
  }
  shown.clear();
  assert.equal(await takeAll(limit, pool(5), 100), 11);
});

Deno.test("NodeLimit counts blocks of the same pool and node alone", async () => {
  const { limit, shown } = setUp();
  for (let n = 0; n < 20; n++) {
    shown.set(`q-${n}`, {
      apiVersion: "coil.cybozu.com/v2",
      kind: "AddressBlock",
      metadata: {
        name: `q-${n}`,
        labels: { "coil.cybozu.com/pool": "q", "coil.cybozu.com/node": "n" },
      },
      index: n,
    });
    using other = await limit.take(pool(5), { node: `n${n}`, signal });
    other.allocated(`p-${100 + n}`);
    using q = await limit.take({ ...pool(0), name: "q" }, ask);
    q.allocated(`q-${100 + n}`);
  }
  assert.equal(await takeAll(limit, pool(5)), 11);
});

Deno.test("NodeLimit: a block of that name on another node does not make room", async () => {
  const { limit, shown } = setUp();
  await takeAll(limit, pool(5));
  limit.settled("p-0", ask);
  using seat = await limit.take(pool(5), ask);
  seat.allocating("p-50");
  shown.set("p-50", {
    apiVersion: "coil.cybozu.com/v2",
    kind: "AddressBlock",
    metadata: {
      name: "p-50",
      labels: { "coil.cybozu.com/pool": "p", "coil.cybozu.com/node": "m" },
    },
    index: 50,
  });
  limit.settled("p-50", ask);
  await assert.rejects(limit.take(pool(5), ask), /holds 11 blocks/);
});

Deno.test("NodeLimit asks again how many pods a Node allows after five minutes", async () => {
  const { limit, node, pass, reads } = setUp();
  assert.equal(await takeAll(limit, pool(5)), 11);
  node.pods = "220";
  // Blocks that no cache ever showed are forgotten by then.
  pass(5 * 60_000 - 1);
  assert.equal(await takeAll(limit, pool(5), 100), 11);
  assert.equal(reads.length, 1);
  pass(1);
  assert.equal(await takeAll(limit, pool(5), 200), 7);
  assert.equal(reads.length, 2);
});
