import assert from "node:assert/strict";
import type { CallEntry } from "../../../lib/cnirpc/inspection/mod.ts";
import { Registry } from "../../../lib/telemetry/mod.ts";
import { CoildMetrics } from "./metrics.ts";

/** All samples of a metric but those of buckets and sums, without its name. */
async function samplesOf(registry: Registry, name: string): Promise<string[]> {
  const text = await registry.metrics();
  return text.split("\n").filter((line) =>
    line.startsWith(`${name}{`) || line.startsWith(`${name} `) ||
    line.startsWith(`${name}_count`)
  ).map((line) => line.slice(name.length)).toSorted();
}

Deno.test("CoildMetrics count what is reported to them", async () => {
  const registry = new Registry();
  const metrics = new CoildMetrics(registry, {
    list: ["Add", "Del"].map((method) => ({
      method,
    })) as unknown as CallEntry[],
  });
  assert.equal(await metrics.phase("pod", () => Promise.resolve(7)), 7);
  await assert.rejects(
    metrics.phase("lock", () => Promise.reject(new Error("late"))),
    /late/,
  );
  metrics.pluginCalled("answered");
  metrics.blockRequested({ pool: "p", outcome: "granted", seconds: 1 });
  for (let i = 0; i < 2; i++) metrics.blockReturned({ pool: "p", ok: true });
  metrics.blockReturned({ pool: "p", ok: false });
  metrics.announced("accepted");
  metrics.egressUpdated("error");
  metrics.repaired("rule");
  metrics.reconciled("ok");
  const expected: Readonly<Record<string, readonly string[]>> = {
    coil_coild_add_phase_seconds: [
      '_count{phase="lock"} 1',
      '_count{phase="pod"} 1',
    ],
    coil_coild_adds_in_flight: [" 1"],
    coil_coild_launcher_calls_total: ['{result="answered"} 1'],
    coil_coild_block_request_seconds: [
      '_count{pool="p",outcome="granted"} 1',
    ],
    coil_coild_block_returns_total: [
      '{pool="p",result="error"} 1',
      '{pool="p",result="ok"} 2',
    ],
    coil_coild_egress_announcements_total: ['{result="accepted"} 1'],
    coil_coild_egress_updates_total: [
      '{result="error"} 1',
      '{result="ok"} 0',
    ],
    coil_coild_reconciliations_total: [
      '{result="error"} 0',
      '{result="ok"} 1',
    ],
    coil_coild_repairs_total: [
      '{what="address"} 0',
      '{what="export"} 0',
      '{what="forwarding"} 0',
      '{what="link"} 0',
      '{what="route"} 0',
      '{what="rule"} 1',
      '{what="sources"} 0',
    ],
  };
  for (const [name, samples] of Object.entries(expected)) {
    assert.deepEqual(await samplesOf(registry, name), samples, name);
  }
});

Deno.test("CoildMetrics count ADDs that found their pool used up, by pool", async () => {
  const registry = new Registry();
  const metrics = new CoildMetrics(registry);
  for (const pool of ["a", "b", "a"]) metrics.poolExhausted(pool);
  assert.deepEqual(
    await samplesOf(registry, "coil_coild_pool_exhausted_adds_total"),
    ['{pool="a"} 2', '{pool="b"} 1'],
  );
});

Deno.test("CoildMetrics time phases and requests in seconds", async () => {
  const registry = new Registry();
  const metrics = new CoildMetrics(registry);
  const startMs = performance.now();
  await metrics.phase("pod", () => Promise.resolve());
  const elapsedMs = performance.now() - startMs;
  metrics.blockRequested({ pool: "p", outcome: "granted", seconds: 2 });
  const text = await registry.metrics();
  const sumOf = (name: string) =>
    Number(new RegExp(`^${name}_sum.* (\\S+)$`, "m").exec(text)?.[1]);
  const seconds = sumOf("coil_coild_add_phase_seconds");
  assert.ok(seconds >= 0 && seconds <= elapsedMs / 1_000, `${seconds}`);
  assert.equal(sumOf("coil_coild_block_request_seconds"), 2);
});

Deno.test("CoildMetrics read gauges when they are scraped", async () => {
  const registry = new Registry();
  const metrics = new CoildMetrics(registry);
  const states = {
    used: 2,
    releasing: 3,
    cooling: 4,
    quarantined: 5,
    reserved: 10,
  };
  let pools = [{ pool: "p", free: 1, ...states, blocks: 6, quota: 0 }];
  const ipam = { stats: () => pools } as unknown as Parameters<
    CoildMetrics["observeIpam"]
  >[1]["ipam"];
  const readiness = { isReady: false };
  const egress = {
    clients: 8,
    conditions: new Map([["EgressUnavailable", 9]]),
  };
  metrics.observeIpam(registry, { ipam, teardown: { pending: 7 } });
  metrics.observe(registry, { readiness, egress });
  const samples = (name: string) => samplesOf(registry, `coil_coild_${name}`);
  assert.deepEqual(await samples("addresses"), [
    '{pool="p",state="cooling"} 4',
    '{pool="p",state="free"} 1',
    '{pool="p",state="quarantined"} 5',
    '{pool="p",state="releasing"} 3',
    '{pool="p",state="reserved"} 10',
    '{pool="p",state="used"} 2',
  ]);
  assert.deepEqual(await samples("blocks"), ['{pool="p"} 6']);
  assert.deepEqual(await samples("husks"), [" 7"]);
  assert.deepEqual(await samples("egress_clients"), [" 8"]);
  assert.deepEqual(await samples("egress_client_conditions"), [
    '{reason="EgressUnavailable"} 9',
  ]);
  assert.deepEqual(await samples("ready"), [" 0"]);
  // A pool without a block of this node is gone from the metrics.
  pools = [];
  readiness.isReady = true;
  assert.deepEqual(await samples("addresses"), []);
  assert.deepEqual(await samples("blocks"), []);
  assert.deepEqual(await samples("ready"), [" 1"]);
});
