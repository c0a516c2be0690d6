import assert from "node:assert/strict";
import type { SpiderCoordinatorStatus } from "../../../lib/api/mod.ts";
import { statusOf, statusText } from "./status.ts";

const PODS = { cidrs: ["10.244.0.0/16"] };
const SERVICES = { cidrs: ["10.96.0.0/12"] };
const KNOWN: SpiderCoordinatorStatus = {
  phase: "Synced",
  reason: "",
  overlayPodCIDR: PODS.cidrs,
  serviceCIDR: SERVICES.cidrs,
};

Deno.test("statusOf() is ready when both are known", () => {
  const found = { pods: PODS, services: SERVICES };
  assert.deepEqual(statusOf(found), KNOWN);
  const former = { phase: "NotReady", reason: "x", overlayPodCIDR: ["::/0"] };
  assert.deepEqual(statusOf(found, former), KNOWN);
});

Deno.test("statusOf() is not ready while something was never known", () => {
  for (
    const found of [
      { pods: { unknown: "no pods" }, services: SERVICES },
      { pods: PODS, services: { unknown: "no services" } },
    ]
  ) {
    const { phase, reason } = statusOf(found);
    assert.equal(phase, "NotReady");
    assert.match(reason ?? "", /^no (pods|services)$/);
  }
});

Deno.test("statusOf() keeps the last values, and says so once", () => {
  const found = { pods: { unknown: "a" }, services: { unknown: "b" } };
  const kept = statusOf(found, KNOWN);
  assert.deepEqual(kept, {
    ...KNOWN,
    reason: "the last known values stay in force: b; a",
  });
  assert.deepEqual(statusOf(found, kept), kept);
  const services = { cidrs: ["10.97.0.0/16"] };
  assert.deepEqual(statusOf({ ...found, services }, kept), {
    ...KNOWN,
    serviceCIDR: services.cidrs,
    reason: "the last known values stay in force: a",
  });
});

Deno.test("statusText() differs with each field, and not by how nothing is written", () => {
  const texts = [
    KNOWN,
    { ...KNOWN, phase: "NotReady" },
    { ...KNOWN, reason: "x" },
    { ...KNOWN, overlayPodCIDR: [] },
    { ...KNOWN, serviceCIDR: [] },
  ].map(statusText);
  assert.equal(new Set(texts).size, texts.length);
  const empty = { overlayPodCIDR: null, serviceCIDR: [] };
  assert.equal(statusText(undefined), statusText(empty));
});
