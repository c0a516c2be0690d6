import assert from "node:assert/strict";
import { KeyedMutex } from "../../../lib/async/mod.ts";
import { parseConfig } from "../../../lib/cni/mod.ts";
import { NOTHING_SHARED } from "../../../lib/coordinator/mod.ts";
import type { PluginCall } from "../../../lib/plugin/mod.ts";
import { createRegistry } from "../../../lib/telemetry/mod.ts";
import { loggedLines } from "../../../lib/telemetry/testing.ts";
import { CoordinatorCalls, type CoordinatorCallsOptions } from "./calls.ts";
import { CoordinatorMetrics } from "./metrics.ts";

/** Calls that need no kernel. */
function statusCalls(): CoordinatorCalls {
  const machine = {
    shared: () => NOTHING_SHARED,
    probes: {},
  } as unknown as CoordinatorCallsOptions["machine"]; // all that STATUS uses
  return new CoordinatorCalls({
    machine,
    pods: { find: () => Promise.reject(new Error("not asked")) },
    events: { record() {} },
    metrics: new CoordinatorMetrics(createRegistry(), {
      ageSeconds: 1,
      countPods: () => Promise.resolve(0),
    }),
    locks: new KeyedMutex(),
  });
}

async function recordsOf(config: object): Promise<string[]> {
  const lines = loggedLines();
  const conf = parseConfig(JSON.stringify({
    cniVersion: "1.1.0",
    name: "n",
    type: "coordinator",
    ...config,
  }));
  const call = {
    command: "STATUS",
    conf,
    request: { containerId: "", ifname: "", args: {} },
  } as unknown as PluginCall; // all that STATUS has
  const { signal } = new AbortController();
  const startMs = performance.now();
  await statusCalls().perform(call, { signal }).catch(() => {});
  const mostMs = Math.ceil(performance.now() - startMs);
  return lines.map((line) => {
    const { level, msg, elapsedMs } = JSON.parse(line);
    assert.ok(elapsedMs >= 0 && elapsedMs <= mostMs, line);
    return `${level} ${msg}`;
  });
}

Deno.test("CoordinatorCalls records as much of a call as its logLevel says", async () => {
  const works = { serviceCIDR: ["10.96.0.0/12"] };
  const at = (logLevel: string) => ({ logOptions: { logLevel } });
  assert.deepEqual(await recordsOf(works), ["info Finished call"]);
  assert.deepEqual(await recordsOf({ ...works, ...at("warn") }), []);
  assert.deepEqual(await recordsOf(at("warn")), ["warn Call failed"]);
  assert.deepEqual(await recordsOf(at("error")), []);
});
