import assert from "node:assert/strict";
import { Address } from "../../inet/mod.ts";
import { loggedLines } from "../../telemetry/testing.ts";
import { ReportLog } from "./report_log.ts";
import type { AllocationRecord, PodReport } from "./reconcile.ts";

const QUARANTINED =
  "A pod has an address outside this node's blocks; it is quarantined";

function record(n: number, ageMs = 0): AllocationRecord {
  return {
    pool: "default",
    containerId: `c${n}`,
    ifname: "eth0",
    addresses: { ipv4: Address.parse(`10.0.${n >> 8}.${n & 255}`) },
    state: "quarantined",
    generation: 1,
    ageMs,
  };
}

function report(found: Partial<PodReport>): PodReport {
  return {
    registered: [],
    freed: [],
    missing: [],
    stuckReleases: [],
    quarantined: [],
    duplicates: [],
    withoutAddress: [],
    ...found,
  };
}

/** Records in memory; `written` takes those since its last call. */
function logOf() {
  const lines = loggedLines();
  const written = () =>
    lines.splice(0).map((line): Record<string, unknown> => JSON.parse(line));
  const messages = () => written().map(({ level, msg }) => `${level} ${msg}`);
  return { messages, written, reports: new ReportLog() };
}

Deno.test("ReportLog: what lasts is recorded when it begins, changes and ends, not at every comparison", () => {
  const { messages, reports } = logOf();
  for (let n = 0; n < 100; n++) {
    const quarantined = [record(1, n * 60_000)];
    const stuckReleases = [record(2, n * 60_000)];
    reports.record(report({ quarantined, stuckReleases }));
  }
  const begun = [
    "warn Releasing addresses takes too long",
    `error ${QUARANTINED}`,
  ];
  assert.deepEqual(messages(), begun);
  const changed = { ...record(1), addresses: record(3).addresses };
  reports.record(report({ quarantined: [changed] }));
  assert.deepEqual(messages(), [
    "info No longer: Releasing addresses takes too long",
    `error ${QUARANTINED}`,
  ]);
  reports.record(report({}));
  assert.deepEqual(messages(), [`info No longer: ${QUARANTINED}`]);
  reports.record(report({ quarantined: [changed] }));
  assert.deepEqual(messages(), [`error ${QUARANTINED}`], "it is back");
});

Deno.test("ReportLog: however many pods there are, a comparison writes few records", () => {
  const { messages, reports } = logOf();
  const quarantined = Array.from({ length: 500 }, (_, n) => record(n));
  reports.record(report({ quarantined }));
  assert.equal(messages().length, 21);
  reports.record(report({}));
  assert.equal(messages().length, 1);
});

Deno.test("ReportLog says how long a release takes, and how many records it left out", () => {
  const { reports, written } = logOf();
  reports.record(report({ stuckReleases: [record(1, 90_400)] }));
  assert.equal(written()[0]?.["seconds"], 90);
  const quarantined = Array.from({ length: 20 }, (_, n) => record(n));
  reports.record(report({ quarantined }));
  assert.equal(written().length, 21, "and what is over");
  const others = Array.from({ length: 50 }, (_, n) => record(100 + n));
  reports.record(report({ quarantined: others }));
  assert.deepEqual(written().flatMap(({ more }) => more ?? []), [30]);
});

Deno.test("ReportLog logs each kind of finding at its level", () => {
  const { messages, reports } = logOf();
  const address = Address.parse("10.0.0.1");
  reports.record(report({
    withoutAddress: [record(1)],
    stuckReleases: [record(2)],
    quarantined: [record(3)],
    duplicates: [{ address, holders: [record(4), record(5)] }],
  }));
  assert.deepEqual(messages(), [
    "warn A pod interface has no address",
    "warn Releasing addresses takes too long",
    `error ${QUARANTINED}`,
    "error Several pods have the same address",
  ]);
});
