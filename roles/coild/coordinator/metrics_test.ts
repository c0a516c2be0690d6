import assert from "node:assert/strict";
import { createRegistry } from "../../../lib/telemetry/mod.ts";
import { CoordinatorMetrics } from "./metrics.ts";

Deno.test("CoordinatorMetrics has no age of defaults before the API server has answered", async () => {
  const registry = createRegistry();
  const defaults: { ageSeconds: number | undefined } = {
    ageSeconds: undefined,
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
});

Deno.test("CoordinatorMetrics times a phase that fails, too", async () => {
  const registry = createRegistry();
  const metrics = new CoordinatorMetrics(registry, { ageSeconds: 1 });
  const failing = metrics.phase("lock", () => Promise.reject(new Error("no")));
  await assert.rejects(failing, /^Error: no$/);
  assert.match(
    await registry.metrics(),
    /call_seconds_count\{phase="lock"\} 1\n/,
  );
});
