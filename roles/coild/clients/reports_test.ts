import assert from "node:assert/strict";
import { FakeClock } from "../../../lib/async/testing.ts";
import type { ClientCondition, ConditionEnd } from "./conditions.ts";
import { EgressReports } from "./reports.ts";

const DELAY_MS = 10_000;
const MINUTE_MS = 60_000;

const DOWN: ClientCondition = {
  id: "unavailable nat/a",
  reason: "EgressUnavailable",
  message: "down",
};
const UP: ConditionEnd = {
  id: DOWN.id,
  reason: "EgressAvailable",
  message: "up",
};
const SHADOWED: ClientCondition = {
  id: "shadowed nat/a",
  reason: "EgressShadowed",
  message: "shadowed",
};

/** One client, the Events about it, and time that is turned by hand. */
function reporting({ random = 0 } = {}) {
  const clock = new FakeClock();
  const told: string[] = [];
  const reports = new EgressReports({
    events: {
      record: ({ name }, { type, reason }) => {
        told.push(`${clock.nowMs() / 1_000} ${name} ${type} ${reason}`);
      },
    },
    delayMs: DELAY_MS,
    clock,
    random: () => random,
  });
  const client = (name: string) => ({
    key: { containerId: name, ifname: "eth0" },
    pod: { namespace: "ns", name },
  });
  const report = (...conditions: ClientCondition[]) =>
    reports.report(client("pod"), { conditions, ends: [UP] });
  return { clock, told, reports, client, report };
}

Deno.test("EgressReports tell once what lasts, and its end when that lasts", async () => {
  const { clock, told, report } = reporting({ random: 0.5 });
  report(DOWN);
  await clock.advance(14_999);
  report(DOWN);
  assert.deepEqual(told, []);
  await clock.advance(1);
  report(DOWN);
  await clock.advance(5_000);
  report();
  await clock.advance(MINUTE_MS);
  report();
  assert.deepEqual(told, [
    "15 pod Warning EgressUnavailable",
    "35 pod Normal EgressAvailable",
  ]);
  assert.equal(clock.pending, 0);
});

Deno.test("EgressReports say nothing of what passes, either way", async () => {
  const { clock, told, report } = reporting();
  for (let i = 0; i < 5; i++) {
    report(DOWN);
    await clock.advance(DELAY_MS - 1);
    report();
    await clock.advance(1_000);
  }
  assert.deepEqual(told, []);
  report(DOWN);
  await clock.advance(DELAY_MS);
  for (let i = 0; i < 5; i++) {
    report();
    await clock.advance(DELAY_MS - 1);
    report(DOWN);
    await clock.advance(1_000);
  }
  assert.equal(told.length, 1);
});

Deno.test("EgressReports tell of what flaps two Events in five minutes, and in the end what is so", async () => {
  const { clock, told, report } = reporting();
  // Down for 20 s, up for 20 s, for half an hour.
  for (let i = 0; i < 45; i++) {
    report(DOWN);
    await clock.advance(20_000);
    report();
    await clock.advance(20_000);
  }
  const begins = told.filter((each) => each.includes("Unavailable"));
  assert.ok(begins.length >= 5 && begins.length <= 6, told.join("\n"));
  assert.ok(told.length <= 12, told.join("\n"));
  report(DOWN);
  await clock.advance(6 * MINUTE_MS);
  assert.match(told.at(-1) ?? "", /EgressUnavailable$/);
  const beginsS = told.filter((each) => each.includes("Unavailable"))
    .map((each) => parseFloat(each));
  for (const [i, at] of beginsS.entries()) {
    assert.ok(i === 0 || at - (beginsS[i - 1] ?? 0) >= 300, told.join("\n"));
  }
});

Deno.test("EgressReports tell at once what a new pod begins with", async () => {
  const { clock, told, reports, client } = reporting();
  const conditions = [DOWN, SHADOWED];
  reports.report(client("new"), { conditions, isNew: true });
  assert.deepEqual(told, [
    "0 new Warning EgressUnavailable",
    "0 new Warning EgressShadowed",
  ]);
  // The one has an end to tell of, the other has not.
  reports.report(client("new"), { conditions: [], ends: [UP] });
  await clock.advance(MINUTE_MS);
  assert.deepEqual(told.slice(2), ["10 new Normal EgressAvailable"]);
});

Deno.test("EgressReports say nothing of an end of which nothing is to be said", async () => {
  const { clock, told, reports, client, report } = reporting();
  report(DOWN);
  await clock.advance(DELAY_MS);
  // The pod is no client any more: that does not make the gateway ready.
  reports.report(client("pod"), { conditions: [] });
  await clock.advance(6 * MINUTE_MS);
  assert.equal(told.length, 1);
  report(DOWN);
  await clock.advance(DELAY_MS);
  assert.equal(told.length, 2);
});

Deno.test("EgressReports spread a gateway's clients by chance, and count them at once", async () => {
  let turn = 0;
  const clock = new FakeClock();
  const toldMs: number[] = [];
  const reports = new EgressReports({
    events: { record: () => void toldMs.push(clock.nowMs()) },
    delayMs: DELAY_MS,
    clock,
    random: () => turn++ / 20,
  });
  for (let i = 0; i < 10; i++) {
    const key = { containerId: `c${i}`, ifname: "eth0" };
    const pod = { namespace: "ns", name: `pod${i}` };
    const conditions = [DOWN, { ...DOWN, id: "other" }];
    reports.report({ key, pod }, { conditions });
  }
  assert.equal(reports.counts.get("EgressUnavailable"), 10);
  assert.equal(reports.counts.get("EgressShadowed"), 0);
  await clock.advance(2 * DELAY_MS);
  assert.equal(new Set(toldMs).size, 20);
  assert.equal(reports.counts.get("EgressUnavailable"), 10);
});

Deno.test("EgressReports do not outlive what they are about", async () => {
  const { clock, told, reports, client, report } = reporting();
  report(DOWN, SHADOWED);
  reports.forget(client("pod").key);
  assert.equal(clock.pending, 0);
  assert.equal(reports.counts.get("EgressUnavailable"), 0);
  // What is gone has nothing to come to an end.
  report();
  report(DOWN);
  reports[Symbol.dispose]();
  reports[Symbol.dispose]();
  await clock.advance(MINUTE_MS);
  assert.deepEqual(told, []);
  assert.equal(clock.pending, 0);
});
