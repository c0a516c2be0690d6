import assert from "node:assert/strict";
import { Address } from "../../inet/mod.ts";
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

/** A log whose lines are kept as `<level> <message>`. */
function logOf(): { readonly lines: string[]; readonly reports: ReportLog } {
  const lines: string[] = [];
  const at = (level: string) => (message: string) =>
    void lines.push(`${level} ${message}`);
  const log = {
    debug: at("debug"),
    info: at("info"),
    warn: at("warn"),
    error: at("error"),
  };
  return { lines, reports: new ReportLog(log) };
}

Deno.test("ReportLog: what lasts is recorded when it begins, changes and ends, not at every comparison", () => {
  const { lines, reports } = logOf();
  for (let n = 0; n < 100; n++) {
    const quarantined = [record(1, n * 60_000)];
    const stuckReleases = [record(2, n * 60_000)];
    reports.record(report({ quarantined, stuckReleases }));
  }
  const begun = [
    "warn Releasing addresses takes too long",
    `error ${QUARANTINED}`,
  ];
  assert.deepEqual(lines.splice(0), begun);
  const changed = { ...record(1), addresses: record(3).addresses };
  reports.record(report({ quarantined: [changed] }));
  assert.deepEqual(lines.splice(0), [
    "info Over: Releasing addresses takes too long",
    `error ${QUARANTINED}`,
  ]);
  reports.record(report({}));
  assert.deepEqual(lines.splice(0), [`info Over: ${QUARANTINED}`]);
  reports.record(report({ quarantined: [changed] }));
  assert.deepEqual(lines, [`error ${QUARANTINED}`], "it is back");
});

Deno.test("ReportLog: however many pods there are, a comparison writes few records", () => {
  const { lines, reports } = logOf();
  const quarantined = Array.from({ length: 500 }, (_, n) => record(n));
  reports.record(report({ quarantined }));
  assert.equal(lines.length, 21);
  reports.record(report({}));
  assert.equal(lines.length, 22);
});

Deno.test("ReportLog says how long a release takes, and how many records it left out", () => {
  const fields: Record<string, unknown>[] = [];
  const note = (_: string, more = {}) => void fields.push(more);
  const reports = new ReportLog({
    debug: note,
    info: note,
    warn: note,
    error: note,
  });
  reports.record(report({ stuckReleases: [record(1, 90_400)] }));
  assert.equal(fields.splice(0)[0]?.["seconds"], 90);
  const quarantined = Array.from({ length: 20 }, (_, n) => record(n));
  reports.record(report({ quarantined }));
  assert.equal(fields.splice(0).length, 21, "and what is over");
  const others = Array.from({ length: 50 }, (_, n) => record(100 + n));
  reports.record(report({ quarantined: others }));
  assert.deepEqual(fields.flatMap(({ more }) => more ?? []), [30]);
});

Deno.test("ReportLog logs each kind of finding at its level", () => {
  const { lines, reports } = logOf();
  const address = Address.parse("10.0.0.1");
  reports.record(report({
    withoutAddress: [record(1)],
    stuckReleases: [record(2)],
    quarantined: [record(3)],
    duplicates: [{ address, holders: [record(4), record(5)] }],
  }));
  assert.deepEqual(lines, [
    "warn A pod interface has no address",
    "warn Releasing addresses takes too long",
    `error ${QUARANTINED}`,
    "error Several pods have the same address",
  ]);
});
