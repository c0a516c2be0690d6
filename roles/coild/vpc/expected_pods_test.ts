import assert from "node:assert/strict";
import type { V1Pod } from "../../../lib/kube/mod.ts";
import { countExpected } from "./expected_pods.ts";

const POD: V1Pod = { metadata: { namespace: "default", name: "pod" } };
const going: V1Pod = {
  metadata: { ...POD.metadata, deletionTimestamp: "2026-11-26T10:00:00Z" },
};
const at = (ip: string) => ({ podIPs: [{ ip }] });

const NOW = "2026-11-26T10:05:00Z";
const begunAt = (startTime: string) => ({ ...POD, status: { startTime } });

const CASES: readonly (readonly [string, V1Pod, number])[] = [
  ["without an address yet", POD, 1],
  ["with an address", { ...POD, status: at("10.0.1.7") }, 1],
  ["whose address was released", { ...POD, status: at("10.0.1.8") }, 0],
  ["on the host network", {
    ...POD,
    spec: { containers: [], hostNetwork: true },
  }, 0],
  ["that has ended", { ...POD, status: { phase: "Succeeded" } }, 0],
  [
    "that was begun less than five minutes ago",
    begunAt("2026-11-26T10:00:01Z"),
    1,
  ],
  [
    "that was begun five minutes ago, and has not asked",
    begunAt("2026-11-26T10:00:00Z"),
    0,
  ],
  [
    "that was begun by a clock that is ahead",
    begunAt("2026-11-27T10:00:00Z"),
    1,
  ],
  ["that was begun long ago and has an address", {
    ...POD,
    status: { startTime: "2026-01-01T00:00:00Z", ...at("10.0.1.7") },
  }, 1],
  ["that goes before it has an address", going, 0],
  ["that goes and still has one", { ...going, status: at("10.0.1.7") }, 1],
  ["that goes and has none any longer", {
    ...going,
    status: at("10.0.1.8"),
  }, 0],
];

for (const [what, pod, count] of CASES) {
  Deno.test(`countExpected() counts ${count} for a pod ${what}`, () => {
    const isHeld = (address: unknown) => String(address) === "10.0.1.7";
    const nowMs = Date.parse(NOW);
    assert.equal(countExpected([pod], { isHeld, nowMs }), count);
  });
}
