import assert from "node:assert/strict";
import { Registry } from "../../../lib/telemetry/mod.ts";
import { observeSources } from "./source_metrics.ts";

Deno.test("metrics of sources say what the kernel counts, and keep that where it cannot count", async () => {
  const registry = new Registry();
  const guard = {
    isInPlace: true,
    unrestricted: 3,
    counts: { ipv4: 5, ipv6: 7 } as { ipv4: number; ipv6: number } | undefined,
    countForged: () => Promise.resolve(guard.counts),
  };
  observeSources(registry, guard);
  const samples = async () =>
    (await registry.metrics()).split("\n")
      .filter((line) => line.startsWith("coil_coild_"));
  const of = (inPlace: number, pods: number) => [
    `coil_coild_source_validation ${inPlace}`,
    `coil_coild_any_source_pods ${pods}`,
  ];
  const forged = (ipv4: number, ipv6: number) => [
    `coil_coild_forged_packets_total{family="ipv4"} ${ipv4}`,
    `coil_coild_forged_packets_total{family="ipv6"} ${ipv6}`,
  ];
  assert.deepEqual(await samples(), [...of(1, 3), ...forged(5, 7)]);
  assert.deepEqual(await samples(), [...of(1, 3), ...forged(5, 7)]);
  // The table was made again: its counters begin at 0.
  guard.counts = { ipv4: 1, ipv6: 0 };
  assert.deepEqual(await samples(), [...of(1, 3), ...forged(1, 0)]);
  guard.counts = undefined;
  guard.isInPlace = false;
  guard.unrestricted = 0;
  assert.deepEqual(await samples(), [...of(0, 0), ...forged(1, 0)]);
});
