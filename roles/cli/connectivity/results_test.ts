import assert from "node:assert/strict";
import type { ProbeOutcome } from "../../../lib/connectivity/mod.ts";
import { planProbes, type Probe } from "./plan.ts";
import { probeText, resultOf, troubleText } from "./results.ts";
import { podOf, TARGETS } from "./testing.ts";

const PODS = [podOf(1), podOf(2), podOf(2, { kind: "egress" })];
const EGRESS = { url: "http://[2001:db8::1]/", sources: ["10.0.9.9"] };
const PROBES = planProbes(PODS, { ...TARGETS, egress: EGRESS });

/** What is said of the first probe of a check. */
function said(check: Probe["check"], outcome: ProbeOutcome): string {
  const probe = PROBES.find((one) => one.check === check);
  assert.ok(probe !== undefined);
  const { trouble } = resultOf(probe, outcome);
  return trouble === undefined ? "well" : troubleText(trouble);
}

const CASES: readonly (readonly [Probe["check"], ProbeOutcome, string])[] = [
  ["pod", { state: "answered", by: "probe-1", source: "10.0.1.2" }, "well"],
  [
    "pod",
    { state: "answered", by: "web", source: "10.0.1.2" },
    '"web" answered',
  ],
  [
    "pod",
    { state: "answered", source: "10.0.1.2" },
    "another server answered",
  ],
  [
    "pod",
    { state: "answered", by: "probe-1", source: "192.168.0.1" },
    "seen as 192.168.0.1",
  ],
  ["service", { state: "answered", by: "any", source: "any" }, "well"],
  ["api-server", { state: "answered" }, "well"],
  ["egress", { state: "answered", source: "10.0.9.9" }, "well"],
  ["egress", { state: "answered" }, "the answer has no address"],
  [
    "large",
    { state: "failed", why: "no answer", detail: "", size: 1500 },
    "no answer (packets of 1500 bytes)",
  ],
  ["pod", { state: "failed", why: "other", detail: "what?" }, "what?"],
  ["pod", { state: "failed", why: "refused", detail: "x" }, "refused"],
];

for (const [check, outcome, text] of CASES) {
  Deno.test(`of ${check}, ${JSON.stringify(outcome)} is: ${text}`, () => {
    assert.equal(said(check, outcome), text);
  });
}

Deno.test("probeText() says who asks whom, and how", () => {
  const texts = new Set(PROBES.map(probeText));
  for (
    const text of [
      "Node node1 to 10.0.2.2:8080 (Node node2) by UDP",
      "Node node2 to [fd00::1:2]:8080 (Node node1) by TCP",
      "Node node1 to 10.96.0.1:443 by TCP",
      "Node node2 to http://[2001:db8::1]/",
    ]
  ) assert.ok(texts.has(text), text);
});
