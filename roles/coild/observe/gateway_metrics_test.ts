import assert from "node:assert/strict";
import { createRegistry } from "../../../lib/telemetry/mod.ts";
import { answering, GatewayMetrics, gatewayStates } from "./gateway_metrics.ts";

Deno.test("GatewayMetrics has times in seconds, and every state at any time", async () => {
  const registry = createRegistry();
  let states = ["healthy", "healthy", "lost"];
  const metrics = new GatewayMetrics(registry, () => states);
  metrics.lost(700);
  metrics.switched(20);
  metrics.switched(40);
  metrics.ended({ aborted: undefined, forgotten: 2 });
  metrics.reported("no-token");
  const lines = async () =>
    [...(await registry.metrics()).matchAll(/^coil_coild_egress_(.*)$/gm)]
      .map(([, line = ""]) => line)
      .filter((line) => !line.includes("_bucket") && !line.endsWith(" 0"));
  assert.deepEqual(await lines(), [
    ...["gateway_loss_seconds_sum 0.7", "gateway_loss_seconds_count 1"],
    ...["client_switch_seconds_sum 0.06", "client_switch_seconds_count 2"],
    'connections_ended_total{how="forgotten"} 2',
    'loss_reports_total{result="no-token"} 1',
    ...['gateways{state="healthy"} 2', 'gateways{state="lost"} 1'],
  ]);
  states = [];
  const text = await registry.metrics();
  assert.match(text, /gateways\{state="lost"\} 0$/m);
  assert.match(text, /gateways\{state="draining"\} 0$/m);
});

Deno.test("gatewayStates() distinguishes healthy gateways that take no new connections, and those of which many probes are lost", () => {
  const health = new Map(Object.entries({
    a: "healthy",
    b: "healthy",
    c: "lost",
    d: "healthy",
    e: "doubted",
    f: "doubted",
    g: "healthy",
  }));
  const suspects = new Set(["d", "e", "g"]);
  assert.deepEqual(
    gatewayStates({ health, suspects }, new Set(["a", "d", "e", "f"])),
    [
      ...["healthy", "draining", "lost"],
      ...["suspect", "suspect", "doubted", "draining"],
    ],
  );
});

Deno.test("answering() has those that take new connections, and apart from them those that answer and do not", () => {
  const health = new Map(Object.entries({
    a: "healthy",
    b: "healthy",
    c: "lost",
    d: "held",
    e: "doubted",
    f: "unknown",
  }));
  const ready = new Set(["a", "c", "d", "e", "f"]);
  assert.deepEqual(answering(health, ready), [
    new Set(["a"]),
    new Set(["b", "d", "e"]),
  ]);
});
