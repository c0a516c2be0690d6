import assert from "node:assert/strict";
import type { AddressBlock, AddressPool } from "../../../lib/api/mod.ts";
import { FakeClock } from "../../../lib/async/testing.ts";
import { type KubeClient, Store } from "../../../lib/kube/mod.ts";
import { FINALIZER, POOL_LABEL } from "../../../lib/names/mod.ts";
import {
  AddressPoolReconciler,
  type AddressPoolReconcilerOptions,
} from "./addresspool_reconciler.ts";

const { signal } = new AbortController();

/** A cluster of which nothing is known. */
const AROUND: Omit<
  AddressPoolReconcilerOptions,
  "client" | "pools" | "blocks"
> = {
  book: {
    sync() {},
    isCarving: () => false,
    overlap: () => undefined,
    drop() {},
  },
  ranges: { overlap: () => undefined },
  usage: undefined,
  audits: { of: () => undefined },
  metrics: { poolCounted() {}, poolForecast() {}, dropPool() {} },
  events: { event() {} },
  heap: { note() {} },
};

/** A pool of 16 blocks, of which the test takes some. */
class Site {
  readonly clock = new FakeClock();
  /** When the status was written, in seconds, and how many blocks were allocated. */
  readonly writes: (readonly [number, number | undefined])[] = [];
  readonly #pools = new Store<AddressPool>();
  readonly #blocks = new Store<AddressBlock>({
    pool: ({ metadata }) => [metadata.labels?.[POOL_LABEL] ?? ""],
  });
  readonly #reconciler: AddressPoolReconciler;
  /** By how many blocks an hour each pool grows, as the metrics have it. */
  readonly rates = new Map<string, number | undefined>();
  /** Addresses that pods have of the first block. */
  used: number | undefined;

  constructor() {
    this.make();
    const updateStatus = (_type: unknown, pool: AddressPool) => {
      const { blocks } = pool.status ?? {};
      this.writes.push([this.clock.nowMs() / 1000, blocks?.allocated]);
      this.#pools.set("p", pool);
      return Promise.resolve(pool);
    };
    this.#reconciler = new AddressPoolReconciler({
      ...AROUND,
      client: { updateStatus } as unknown as KubeClient,
      pools: this.#pools,
      blocks: this.#blocks,
      usage: {
        of: () =>
          this.used === undefined ? undefined : {
            ipv4: new Map([[0, this.used]]),
            ipv6: new Map(),
            reserved: [],
          },
      },
      metrics: {
        ...AROUND.metrics,
        poolForecast: (pool, forecast) =>
          this.rates.set(pool, forecast?.blocksPerHour),
        dropPool: (pool) => this.rates.delete(pool),
      },
      clock: this.clock,
      random: () => 0,
    });
  }

  make(): void {
    this.#pools.set("p", {
      apiVersion: "coil.cybozu.com/v2",
      kind: "AddressPool",
      metadata: { name: "p", uid: "u", finalizers: [FINALIZER] },
      spec: { blockSizeBits: 2, subnets: [{ ipv4: "10.2.0.0/26" }] },
    });
  }

  async remove(): Promise<void> {
    this.#pools.delete("p");
    await this.#reconciler.reconcile("p", signal);
  }

  /** What the status says of pods' addresses. */
  get usage(): string | undefined {
    return this.#pools.get("p")?.status?.usage;
  }

  /** Reconciles with so many blocks in use; returns when it is to be done again, in seconds. */
  async use(count: number): Promise<number | undefined> {
    for (const name of this.#blocks.keys()) this.#blocks.delete(name);
    for (let index = 0; index < count; index++) {
      this.#blocks.set(`p-${index}`, {
        apiVersion: "coil.cybozu.com/v2",
        kind: "AddressBlock",
        metadata: { name: `p-${index}`, labels: { [POOL_LABEL]: "p" } },
        index,
      });
    }
    const result = await this.#reconciler.reconcile("p", signal);
    const { requeueAfterMs } = result ?? {};
    return requeueAfterMs === undefined ? undefined : requeueAfterMs / 1000;
  }
}

Deno.test("numbers of a pool are written once in 15 s, and the last of them in any case", async () => {
  const site = new Site();
  await site.use(1);
  for (let second = 1; second <= 20; second++) {
    await site.clock.advance(1000);
    await site.use(2 + second % 10);
  }
  assert.deepEqual(site.writes, [[0, 1], [16, 8]], "they never rest");
  assert.equal(await site.use(5), 11, "asks to come again");
  await site.clock.advance(11_000);
  await site.use(5);
  assert.deepEqual(site.writes, [[0, 1], [16, 8], [31, 5]]);
});

Deno.test("a condition of a pool is written at once, and numbers wait from then on", async () => {
  const site = new Site();
  await site.use(14);
  await site.clock.advance(1_000);
  await site.use(15);
  assert.deepEqual(site.writes, [[0, 14], [1, 15]], "CapacityLow");
  await site.clock.advance(1_000);
  await site.use(16);
  assert.deepEqual(site.writes.at(-1), [2, 16], "Exhausted");
  await site.clock.advance(1_000);
  await site.use(13);
  assert.deepEqual(site.writes.at(-1), [3, 13], "room again");
  assert.equal(await site.use(12), 15);
  assert.equal(site.writes.length, 4);
});

Deno.test("a pool that is being deleted is let go when the API server has no block of it, and none is being made", async () => {
  const metadata = {
    name: "p",
    uid: "u",
    resourceVersion: "7",
    finalizers: ["other", FINALIZER],
    deletionTimestamp: "2026-01-01T00:00:00Z",
  };
  const pools = new Store<AddressPool>();
  pools.set("p", {
    apiVersion: "coil.cybozu.com/v2",
    kind: "AddressPool",
    metadata,
    spec: { blockSizeBits: 2, subnets: [{ ipv4: "10.2.0.0/26" }] },
  });
  let [isCarving, live] = [true, 1];
  const patches: unknown[] = [];
  const reconciler = new AddressPoolReconciler({
    ...AROUND,
    client: {
      list: () => Promise.resolve({ items: Array(live).fill({}) }),
      patch: (_type: unknown, _target: unknown, patch: unknown) =>
        Promise.resolve(patches.push(patch)),
      updateStatus: (_type: unknown, pool: AddressPool) =>
        Promise.resolve(pool),
    } as unknown as KubeClient,
    pools,
    blocks: new Store<AddressBlock>({ pool: () => [] }),
    book: { ...AROUND.book, isCarving: () => isCarving },
  });
  await reconciler.reconcile("p", signal);
  live = 0;
  await reconciler.reconcile("p", signal);
  isCarving = false;
  live = 1;
  await reconciler.reconcile("p", signal);
  assert.deepEqual(patches, []);
  live = 0;
  await reconciler.reconcile("p", signal);
  const { uid, resourceVersion } = metadata;
  assert.deepEqual(patches, [
    { metadata: { uid, resourceVersion, finalizers: ["other"] } },
  ]);
});

Deno.test("what pods use is written at once when it becomes known, then once in 15 s and only when changed", async () => {
  const site = new Site();
  await site.use(1);
  await site.clock.advance(1_000);
  site.used = 1;
  await site.use(1);
  assert.deepEqual(site.writes, [[0, 1], [1, 1]]);
  assert.equal(site.usage, "1/64 (1%)");
  for (let second = 2; second <= 60; second++) {
    await site.clock.advance(1000);
    site.used = Math.min(second, 20);
    await site.use(1);
  }
  assert.deepEqual(site.writes.slice(2), [[17, 1], [32, 1]]);
  assert.equal(site.usage, "20/64 (31%)");
});

Deno.test("numbers of a pool wait while blocks of it come, and are written when they have come", async () => {
  const site = new Site();
  await site.use(1);
  await site.clock.advance(60_000);
  assert.equal(await site.use(2), 2);
  await site.clock.advance(1_000);
  assert.equal(await site.use(3), 2);
  assert.equal(site.writes.length, 1, "as the first block came");
  await site.clock.advance(2_000);
  await site.use(3);
  assert.deepEqual(site.writes.slice(1), [[63, 3]]);
});

Deno.test("numbers of a pool wait for the end of a burst also after others that came and went", async () => {
  const site = new Site();
  await site.use(1);
  await site.clock.advance(60_000);
  assert.equal(await site.use(2), 2);
  assert.equal(await site.use(1), undefined);
  await site.clock.advance(60_000);
  assert.equal(await site.use(2), 2);
  assert.equal(site.writes.length, 1);
});

Deno.test("how fast a pool grows is counted after an hour, and forgotten with the pool", async () => {
  const site = new Site();
  site.used = 1;
  await site.use(1);
  assert.deepEqual([...site.rates], [["p", undefined]]);
  await site.clock.advance(3_600_000);
  await site.use(1);
  assert.deepEqual([...site.rates], [["p", 0]]);
  await site.remove();
  assert.deepEqual([...site.rates], []);
  site.make();
  await site.use(1);
  assert.deepEqual([...site.rates], [["p", undefined]]);
});
