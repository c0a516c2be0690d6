import assert from "node:assert/strict";
import type { EventInfo } from "../../../lib/kube/mod.ts";
import type { Repair } from "./metrics.ts";
import { NodeEvents } from "./node_events.ts";
import { RepairReports } from "./repair_reports.ts";

const MINUTE_MS = 60_000;

function setUp() {
  const events: EventInfo[] = [];
  const counted: Repair[] = [];
  let now = 0;
  const reports = new RepairReports({
    metrics: { repaired: (what) => counted.push(what) },
    nodeEvents: { record: (info) => void events.push(info) },
    now: () => now,
  });
  const at = (ms: number, ...what: Repair[]) => {
    now = ms;
    reports.repaired(what);
  };
  return { at, counted, events };
}

Deno.test("RepairReports makes an Event of the third repair within ten minutes", () => {
  const { at, counted, events } = setUp();
  at(0, "rule");
  at(9 * MINUTE_MS, "route");
  // The first is too old by now.
  at(11 * MINUTE_MS, "rule");
  assert.equal(events.length, 0);
  at(12 * MINUTE_MS, "rule");
  assert.equal(events.length, 1);
  assert.match(
    events[0]?.message ?? "",
    /routing rules, routes to pods|routes to pods, its routing rules/,
  );
  assert.deepEqual(counted, ["rule", "route", "rule", "rule"]);
});

Deno.test("RepairReports takes what is put back at once for one repair", () => {
  const { at, counted, events } = setUp();
  for (let i = 0; i < 109; i++) at(i, "route");
  assert.equal(counted.length, 109);
  assert.deepEqual(events, []);
});

Deno.test("RepairReports makes one Event in ten minutes, however often", () => {
  const { at, events } = setUp();
  for (let s = 0; s < 25 * 60; s++) at(s * 1_000, "rule");
  assert.equal(events.length, 3);
});

Deno.test("RepairReports names the Node instead of its UID while that is unknown", () => {
  const uids: (string | undefined)[] = [];
  for (const uid of ["uid1", undefined]) {
    let now = 0;
    const reports = new RepairReports({
      metrics: { repaired: () => {} },
      nodeEvents: new NodeEvents(
        { event: ({ uid }) => void uids.push(uid) },
        { nodeName: "node1", nodeUid: () => uid },
      ),
      now: () => now,
    });
    for (; now < 3 * MINUTE_MS; now += MINUTE_MS) reports.repaired(["rule"]);
  }
  assert.deepEqual(uids, ["uid1", "node1"]);
});

Deno.test("RepairReports distinguishes a flushed packet filter from removed rules", () => {
  for (
    const [what, told] of [["sources", /flush ruleset/], [
      "rule",
      /networkd/,
    ]] as const
  ) {
    const { at, events } = setUp();
    for (let i = 0; i < 3; i++) at(i * MINUTE_MS, what);
    assert.match(events[0]?.message ?? "", told);
  }
  const { at, events } = setUp();
  for (let i = 0; i < 3; i++) at(i * MINUTE_MS, "sources", "rule");
  assert.match(events[0]?.message ?? "", /networkd.*flush ruleset/s);
});

Deno.test("RepairReports counts nothing for nothing", () => {
  const { at, counted, events } = setUp();
  for (let i = 0; i < 5; i++) at(i * MINUTE_MS);
  assert.deepEqual([counted, events], [[], []]);
});
