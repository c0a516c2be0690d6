import assert from "node:assert/strict";
import { createRegistry } from "../../../lib/telemetry/mod.ts";
import { CoordinatorMetrics } from "./metrics.ts";

Deno.test("CoordinatorMetrics has no age of defaults before the API server has answered", async () => {
  const registry = createRegistry();
  const defaults = {
    ageSeconds: undefined as number | undefined,
    countPods: () => Promise.resolve(3),
  };
  const metrics = new CoordinatorMetrics(registry, defaults);
  const age = async () =>
    /^coil_coordinator_defaults_age_seconds (\S+)$/m
      .exec(await registry.metrics())?.[1];
  assert.equal(await age(), undefined);
  defaults.ageSeconds = 12;
  assert.equal(await age(), "12");
  defaults.ageSeconds = undefined;
  assert.equal(await age(), undefined);
  metrics.called("GC", "error");
  const text = await registry.metrics();
  assert.match(text, /calls_total\{command="GC",result="error"\} 1\n/);
  assert.match(text, /calls_total\{command="DEL",result="ok"\} 0\n/);
  assert.match(text, /^coil_coordinator_pods 3$/m);
});

Deno.test("CoordinatorMetrics has each command, probe and result from the start, at 0", async () => {
  const registry = createRegistry();
  new CoordinatorMetrics(registry, {
    ageSeconds: undefined,
    countPods: () => Promise.resolve(0),
  });
  const text = await registry.metrics();
  for (const command of ["ADD", "DEL", "CHECK", "GC", "STATUS"]) {
    for (const result of ["ok", "error"]) {
      const labels = `{command="${command}",result="${result}"}`;
      assert.ok(text.includes(`coil_coordinator_calls_total${labels} 0\n`));
    }
  }
  const probes = text.matchAll(
    /^coil_coordinator_probes_total\{kind="(\w+)",result="(\w+)"\} 0$/gm,
  );
  assert.deepEqual([...probes].map(([, kind, result]) => `${kind} ${result}`), [
    ...["conflict ok", "conflict failed", "conflict error"],
    ...["gateway ok", "gateway failed", "gateway error"],
    ...["announce ok", "announce error"],
  ]);
});

Deno.test("CoordinatorMetrics times a phase that fails, too", async () => {
  const registry = createRegistry();
  const metrics = new CoordinatorMetrics(registry, {
    ageSeconds: 1,
    countPods: () => Promise.resolve(0),
  });
  const startMs = performance.now();
  const failing = metrics.phase("lock", () => Promise.reject(new Error("no")));
  await assert.rejects(failing, /^Error: no$/);
  const mostSeconds = (performance.now() - startMs) / 1_000;
  const text = await registry.metrics();
  assert.match(text, /call_seconds_count\{phase="lock"\} 1\n/);
  const seconds = Number(
    /call_seconds_sum\{phase="lock"\} (\S+)\n/.exec(text)?.[1],
  );
  assert.ok(seconds >= 0 && seconds <= mostSeconds, `${seconds}`);
});

Deno.test("CoordinatorMetrics counts and times probes by kind and result", async () => {
  const registry = createRegistry();
  const metrics = new CoordinatorMetrics(registry, {
    ageSeconds: 1,
    countPods: () => Promise.resolve(0),
  });
  metrics.probed("conflict", "failed", 1_500);
  const text = await registry.metrics();
  assert.match(text, /probes_total\{kind="conflict",result="failed"\} 1\n/);
  assert.match(text, /probes_total\{kind="gateway",result="ok"\} 0\n/);
  assert.match(text, /probe_seconds_sum\{kind="conflict"\} 1.5\n/);
});

Deno.test("CoordinatorMetrics are read also where pods cannot be counted", async () => {
  const registry = createRegistry();
  const counts = [
    () => Promise.resolve(3),
    () => Promise.reject(new Error("EMFILE")),
  ];
  new CoordinatorMetrics(registry, {
    ageSeconds: 1,
    countPods: () => counts.shift()?.() ?? Promise.resolve(0),
  });
  for (let i = 0; i < 2; i++) {
    assert.match(await registry.metrics(), /^coil_coordinator_pods 3$/m);
  }
});
