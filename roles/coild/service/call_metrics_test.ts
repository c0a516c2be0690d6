import assert from "node:assert/strict";
import { Registry } from "../../../lib/telemetry/mod.ts";
import { CallMetrics } from "./call_metrics.ts";

/** All samples above 0 of a counter, with only the labels that differ. */
async function countsOf(registry: Registry, name: string): Promise<string[]> {
  const text = await registry.metrics();
  return text.split("\n")
    .filter((line) => line.startsWith(`${name}{`) && !line.endsWith(" 0"))
    .map((line) =>
      line.replace(/^.*grpc_method="([^"]*)",?/, "$1 ")
        .replace(/grpc_code=|[}"]/g, "").replaceAll(/ +/g, " ")
    ).toSorted();
}

Deno.test("CallMetrics count calls by what came of them, and answers of those that went well", async () => {
  const registry = new Registry();
  const metrics = new CallMetrics(registry);
  for (const method of ["Add", "Add", "Add", "Del"] as const) {
    metrics.start(method);
  }
  metrics.finish("Add", { codeName: "OK", seconds: 1 });
  metrics.finish("Add", { codeName: "OK", seconds: 1 });
  metrics.finish("Add", { codeName: "Unavailable", seconds: 2 });
  const calls = ["Add 3", "Del 1"];
  assert.deepEqual(
    await countsOf(registry, "grpc_server_started_total"),
    calls,
  );
  assert.deepEqual(
    await countsOf(registry, "grpc_server_msg_received_total"),
    calls,
  );
  assert.deepEqual(await countsOf(registry, "grpc_server_msg_sent_total"), [
    "Add 2",
  ]);
  assert.deepEqual(await countsOf(registry, "grpc_server_handled_total"), [
    "Add OK 2",
    "Add Unavailable 1",
  ]);
  assert.deepEqual(
    await countsOf(registry, "grpc_server_handling_seconds_sum"),
    ["Add 4"],
  );
});

Deno.test("CallMetrics have each method and code from the start", async () => {
  const registry = new Registry();
  new CallMetrics(registry);
  const text = await registry.metrics();
  assert.match(
    text,
    /^grpc_server_handled_total\{.*"Gc",grpc_code="Unknown"\} 0$/m,
  );
  assert.match(text, /^grpc_server_msg_sent_total\{.*"Status"\} 0$/m);
  assert.match(text, /^grpc_server_handling_seconds_count\{.*"Check"\} 0$/m);
});
