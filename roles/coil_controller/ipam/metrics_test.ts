import assert from "node:assert/strict";
import {
  CONDITION_USED_UP_SOON,
  poolOf,
  poolStatus,
} from "../../../lib/api/mod.ts";
import { createRegistry } from "../../../lib/telemetry/mod.ts";
import { IpamMetrics } from "./metrics.ts";

Deno.test("IpamMetrics counts no block as free whose addresses others have", async () => {
  const registry = createRegistry();
  const metrics = new IpamMetrics(registry);
  const pool = poolOf({
    apiVersion: "coil.cybozu.com/v2",
    kind: "AddressPool",
    metadata: { name: "p" },
    spec: { blockSizeBits: 5, subnets: [{ ipv4: "10.4.0.0/25" }] },
  });
  const now = new Date(0);
  const taken = [{ first: 1, last: 3 }];
  const overlap = { taken, message: "shared" };
  metrics.poolCounted("p", poolStatus(pool, { allocated: [0], overlap, now }));
  const text = await registry.metrics();
  assert.match(text, /^coil_controller_free_blocks\{pool="p"\} 0$/m);
  assert.match(text, /^coil_controller_pool_overlaps\{pool="p"\} 1$/m);
  metrics.poolCounted("p", poolStatus(pool, { allocated: [], now }));
  const later = await registry.metrics();
  assert.match(later, /^coil_controller_free_blocks\{pool="p"\} 4$/m);
  assert.match(later, /^coil_controller_pool_overlaps\{pool="p"\} 0$/m);
  for (
    const [reason, value] of [["AddressesInUse", 1], ["InPodCIDR", 0]] as const
  ) {
    const cluster = { reason, message: "used" };
    metrics.poolCounted("p", poolStatus(pool, { allocated: [], cluster, now }));
    const lines = (await registry.metrics()).split("\n");
    assert.ok(
      lines.includes(`coil_controller_pool_overlaps{pool="p"} ${value}`),
      reason,
    );
  }
});

Deno.test("IpamMetrics has no pools when another replica leads, and failed requests from 0", async () => {
  const registry = createRegistry();
  const metrics = new IpamMetrics(registry);
  const leading = metrics.lead(() => [
    { pool: "p", maxBlocks: 4, allocatedBlocks: 1 },
  ]);
  metrics.poolCounted("p", { conditions: [] });
  const lines = async () =>
    (await registry.metrics()).split("\n").filter((l) => l.includes('"p"'));
  const failed =
    'coil_controller_block_requests_total{pool="p",result="failed"} 0';
  assert.equal((await lines()).length, 6);
  assert.ok((await lines()).includes(failed));
  leading[Symbol.dispose]();
  assert.deepEqual(await lines(), [failed]);
});

Deno.test("IpamMetrics says which pools are used up soon, by their condition", async () => {
  const registry = createRegistry();
  const metrics = new IpamMetrics(registry);
  const soon = {
    type: CONDITION_USED_UP_SOON,
    status: "True",
    reason: "BlocksRunOut",
    message: "",
    lastTransitionTime: "2026-01-02T03:04:05Z",
  } as const;
  for (const conditions of [[soon], []]) {
    metrics.poolCounted("p", { conditions });
    const lines = (await registry.metrics()).split("\n");
    const value = conditions.length;
    const line = `coil_controller_pool_used_up_soon{pool="p"} ${value}`;
    assert.ok(lines.includes(line), line);
  }
});

Deno.test("IpamMetrics times each request once, and none that went without an answer", async () => {
  const registry = createRegistry();
  const metrics = new IpamMetrics(registry);
  const lines = async (end: string) => {
    const text = await registry.metrics();
    return text.split("\n").filter((line) =>
      line.startsWith(`coil_controller_block_request_seconds_${end}`)
    );
  };
  metrics.requestSeen("a");
  metrics.requestAnswered("a");
  metrics.requestAnswered("a");
  metrics.requestSeen("b");
  metrics.requestGone("b");
  metrics.requestAnswered("b");
  assert.deepEqual(await lines("count"), [
    "coil_controller_block_request_seconds_count 1",
  ]);
  const buckets = await lines("bucket");
  assert.ok(buckets.length > 5, "they tell fast from slow");
  assert.ok(buckets.every((line) => line.endsWith(" 1")), "in milliseconds");
});

Deno.test("IpamMetrics forget a pool that is gone, and no other", async () => {
  const registry = createRegistry();
  const metrics = new IpamMetrics(registry);
  const pools = new Set(["p", "q"]);
  using _leading = metrics.lead(() =>
    [...pools].map((pool) => ({ pool, maxBlocks: 4, allocatedBlocks: 1 }))
  );
  for (const pool of pools) metrics.poolCounted(pool, { conditions: [] });
  const gauges = async (pool: string) =>
    (await registry.metrics()).split("\n")
      .filter((line) => line.includes(`{pool="${pool}"}`)).length;
  assert.deepEqual([await gauges("p"), await gauges("q")], [5, 5]);
  pools.delete("p");
  metrics.dropPool("p");
  assert.deepEqual([await gauges("p"), await gauges("q")], [0, 5]);
});

Deno.test("IpamMetrics counts a pool's addresses by family and state, which add up, and how fast it is used up", async () => {
  const registry = createRegistry({ defaults: false });
  const metrics = new IpamMetrics(registry);
  const lines = async () =>
    (await registry.metrics()).split("\n")
      .filter((line) =>
        /^coil_controller_pool_[abu]/.test(line) && !line.includes("_soon")
      ).sort();
  const pool = poolOf({
    apiVersion: "coil.cybozu.com/v2",
    kind: "AddressPool",
    metadata: { name: "p" },
    spec: { blockSizeBits: 5, subnets: [{ ipv4: "10.4.0.0/24" }] },
  });
  const facts = {
    allocated: [0, 1],
    overlap: { taken: [{ first: 7, last: 7 }], message: "shared" },
    now: new Date(0),
  };
  const family = 'pool="p",family="ipv4"';
  metrics.poolCounted("p", poolStatus(pool, facts));
  assert.deepEqual(await lines(), [
    `coil_controller_pool_addresses{${family},state="free"} 160`,
    `coil_controller_pool_addresses{${family},state="unavailable"} 32`,
  ], "the pods are not known");
  const used = {
    ipv4: new Map([[1, 6]]),
    ipv6: new Map<number, number>(),
    reserved: [],
  };
  metrics.poolCounted("p", poolStatus(pool, { ...facts, used }));
  metrics.poolForecast("p", { blocksPerHour: 2, hoursLeft: 2.5 });
  assert.deepEqual(await lines(), [
    `coil_controller_pool_addresses{${family},state="free"} 160`,
    `coil_controller_pool_addresses{${family},state="idle"} 58`,
    `coil_controller_pool_addresses{${family},state="unavailable"} 32`,
    `coil_controller_pool_addresses{${family},state="used"} 6`,
    'coil_controller_pool_blocks_per_hour{pool="p"} 2',
    'coil_controller_pool_used_up_seconds{pool="p"} 9000',
  ]);
  metrics.poolForecast("p", { blocksPerHour: 0 });
  assert.deepEqual((await lines()).slice(4), [
    'coil_controller_pool_blocks_per_hour{pool="p"} 0',
  ]);
  const counted = await lines();
  metrics.poolCounted("p", { conditions: [] });
  assert.deepEqual(await lines(), counted, "its specification is unreadable");
  metrics.dropPool("p");
  assert.deepEqual(await lines(), []);
});
