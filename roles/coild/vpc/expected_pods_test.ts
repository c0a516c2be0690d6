import assert from "node:assert/strict";
import type { V1Pod } from "../../../lib/kube/mod.ts";
import { ExpectedPods } from "./expected_pods.ts";

const POD: V1Pod = { metadata: { namespace: "default", name: "pod" } };
const going: V1Pod = {
  metadata: { ...POD.metadata, deletionTimestamp: "2026-11-26T10:00:00Z" },
};
const at = (ip: string) => ({ podIPs: [{ ip }] });

const CASES: readonly (readonly [string, V1Pod, number])[] = [
  ["without an address yet", POD, 1],
  ["with an address", { ...POD, status: at("10.0.1.7") }, 1],
  ["whose address was released", { ...POD, status: at("10.0.1.8") }, 0],
  ["on the host network", {
    ...POD,
    spec: { containers: [], hostNetwork: true },
  }, 0],
  ["that has ended", { ...POD, status: { phase: "Succeeded" } }, 0],
  ["that goes before it has an address", going, 0],
  ["that goes and still has one", { ...going, status: at("10.0.1.7") }, 1],
  ["that goes and has none any longer", {
    ...going,
    status: at("10.0.1.8"),
  }, 0],
];

const isHeld = (address: unknown) => String(address) === "10.0.1.7";

for (const [what, pod, count] of CASES) {
  Deno.test(`ExpectedPods count ${count} for a pod ${what}`, () => {
    assert.equal(new ExpectedPods().count([pod], { isHeld, nowMs: 0 }), count);
  });
}

Deno.test("ExpectedPods count a pod without an address for five minutes, and each pod for itself", () => {
  const expected = new ExpectedPods();
  const count = (nowMs: number, ...uids: string[]) =>
    expected.count(
      uids.map((uid) => ({ metadata: { ...POD.metadata, uid } })),
      { isHeld, nowMs },
    );
  assert.equal(count(0, "a"), 1);
  assert.equal(count(299_999, "a", "b"), 2);
  assert.equal(count(300_000, "a", "b"), 1);
  // One of the same name.
  assert.equal(count(300_000, "c"), 1);
  assert.equal(count(300_000, "a", "c"), 2, "forgotten with the pod");
});
