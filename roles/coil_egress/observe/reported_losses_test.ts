import assert from "node:assert/strict";
import { FakeClock } from "../../../lib/async/testing.ts";
import { Address } from "../../../lib/inet/mod.ts";
import { ReportedLosses } from "./reported_losses.ts";

const EGRESS = { namespace: "nat", name: "internet" };
const USER = "system:serviceaccount:kube-system:coild";

function lossesLab() {
  const clock = new FakeClock();
  let changes = 0;
  const losses = new ReportedLosses({
    egress: EGRESS,
    user: USER,
    onChange: () => changes++,
    clock,
  });
  const report = (
    node: string | undefined,
    lost: Readonly<Record<string, number>>,
    {
      egress = EGRESS,
      username = USER,
      seconds = 5,
      suspects = [] as readonly string[],
    } = {},
  ) =>
    losses.take({
      egress,
      losses: Object.entries(lost).map(([address, ended]) => ({
        gateway: Address.parse(address),
        seconds,
        ended,
      })),
      suspects: suspects.map(Address.parse),
    }, { username, ...node !== undefined && { nodeName: node } }).status;
  const found = () =>
    losses.list().map(({ address, nodes, nodeNames = [], endedConnections }) =>
      `${address}: ${nodes} (${nodeNames.join()}), ${endedConnections}`
    );
  return { clock, losses, report, found, changes: () => changes };
}

Deno.test("ReportedLosses counts the nodes that have lost a gateway, and the connections that they ended", () => {
  const { report, found } = lossesLab();
  assert.equal(report("n1", { "10.2.0.1": 3, "10.2.0.2": 0 }), 204);
  report("n2", { "10.2.0.2": 4 });
  // The same again, with one connection more.
  report("n2", { "10.2.0.2": 5 });
  for (const node of ["n3", "n4"]) report(node, { "10.2.0.2": 1 });
  assert.deepEqual(found(), [
    "10.2.0.2: 4 (n1,n2,n3), 7",
    "10.2.0.1: 1 (n1), 3",
  ]);
});

Deno.test("ReportedLosses keeps the connections that a node ended when its coild is restarted, and counts from 0", () => {
  const { report, found } = lossesLab();
  report("n1", { "10.2.0.1": 3 });
  report("n1", { "10.2.0.1": 0 });
  assert.deepEqual(found(), ["10.2.0.1: 1 (n1), 3"]);
  report("n1", { "10.2.0.1": 4 });
  assert.deepEqual(found(), ["10.2.0.1: 1 (n1), 4"]);
});

Deno.test("ReportedLosses says once that there is news when many nodes report", async () => {
  const { clock, report, changes } = lossesLab();
  for (let i = 0; i < 100; i++) report(`n${i}`, { "10.2.0.1": 0 });
  await clock.advance(4_999);
  assert.equal(changes(), 0);
  await clock.advance(1);
  assert.equal(changes(), 1);
  report("n1", {});
  await clock.advance(5_000);
  assert.equal(changes(), 2);
});

Deno.test("ReportedLosses remembers a gateway that answers all nodes again for an hour", async () => {
  const { clock, report, found } = lossesLab();
  report("n1", { "10.2.0.1": 3 });
  report("n2", { "10.2.0.1": 4 });
  report("n1", {});
  assert.deepEqual(found(), ["10.2.0.1: 1 (n2), 7"]);
  report("n2", {});
  assert.deepEqual(found(), ["10.2.0.1: 0 (), 7"]);
  await clock.advance(3_599_000);
  assert.deepEqual(found(), ["10.2.0.1: 0 (), 7"]);
  await clock.advance(1_000);
  assert.deepEqual(found(), []);
});

Deno.test("ReportedLosses begins at 0 with the next loss, and keeps its time", () => {
  const { losses, report, found } = lossesLab();
  const since = () => Date.parse(losses.list()[0]?.since ?? "");
  const startMs = Date.now();
  report("n1", { "10.2.0.1": 3 }, { seconds: 60 });
  const first = since();
  assert.ok(Math.abs(startMs - 60_000 - first) < 30_000, `${first}`);
  report("n2", { "10.2.0.1": 0 }, { seconds: 1 });
  assert.equal(since(), first);
  report("n1", {});
  report("n2", {});
  assert.equal(since(), first);
  report("n1", { "10.2.0.1": 1 }, { seconds: 0 });
  assert.ok(since() >= startMs);
  assert.deepEqual(found(), ["10.2.0.1: 1 (n1), 1"]);
});

Deno.test("ReportedLosses forgets nodes that are silent", async () => {
  const { clock, report, found } = lossesLab();
  report("n1", { "10.2.0.1": 3 });
  report("n2", { "10.2.0.1": 3 });
  await clock.advance(179_000);
  report("n2", { "10.2.0.1": 3 });
  await clock.advance(1_000);
  assert.deepEqual(found(), ["10.2.0.1: 1 (n2), 6"]);
});

Deno.test("ReportedLosses counts the nodes that lose packets of a gateway, while they say so", async () => {
  const { clock, losses, report } = lossesLab();
  const found = () =>
    losses.suspects().map(({ address, nodes, nodeNames }) =>
      `${address}: ${nodes} (${nodeNames.join()})`
    );
  report("n1", {}, { suspects: ["10.2.0.1", "fd02::1"] });
  for (const node of ["n2", "n3", "n4"]) {
    report(node, { "10.2.0.2": 1 }, { suspects: ["10.2.0.1"] });
  }
  assert.deepEqual(found(), ["10.2.0.1: 4 (n1,n2,n3)", "fd02::1: 1 (n1)"]);
  report("n1", {}, { suspects: ["10.2.0.1"] });
  assert.deepEqual(found(), ["10.2.0.1: 4 (n1,n2,n3)"]);
  await clock.advance(179_000);
  report("n2", {});
  report("n4", {}, { suspects: ["10.2.0.1"] });
  await clock.advance(1_000);
  assert.deepEqual(found(), ["10.2.0.1: 1 (n4)"]);
  report("n4", {});
  assert.deepEqual(found(), []);
});

Deno.test("ReportedLosses shows suspects within bounds for any report of a node", () => {
  const { losses, report } = lossesLab();
  for (let block = 1; block <= 9; block++) {
    const suspects = Array.from({ length: 64 }, (_, i) => `10.${block}.0.${i}`);
    report(`bad${block}`, {}, { suspects });
  }
  for (const node of ["n1", "n2"]) {
    report(node, {}, { suspects: ["10.1.0.1"] });
  }
  assert.equal(losses.suspects().length, 8);
  assert.deepEqual(losses.suspects()[0]?.nodeNames, ["bad1", "n1", "n2"]);
  // What is remembered ends with who said it.
  for (let block = 1; block <= 9; block++) report(`bad${block}`, {});
  assert.deepEqual(losses.suspects().map(({ address }) => address), [
    "10.1.0.1",
  ]);
});

Deno.test("ReportedLosses believes coild alone, about its own Egress", async () => {
  const { clock, report, found, changes } = lossesLab();
  const lost = { "10.2.0.1": 3 };
  assert.equal(report("n1", lost, { username: "other" }), 403);
  assert.equal(report(undefined, lost), 403);
  const others = [{ ...EGRESS, name: "x" }, { ...EGRESS, namespace: "x" }];
  for (const egress of others) {
    assert.equal(report("n1", lost, { egress }), 403);
  }
  await clock.advance(10_000);
  assert.deepEqual([found(), changes()], [[], 0]);
});

Deno.test("ReportedLosses has bounds, and what several nodes say is not pushed out", () => {
  const { losses, report, found } = lossesLab();
  const many = (block: number) =>
    Object.fromEntries(
      Array.from({ length: 64 }, (_, i) => [`10.${block}.0.${i}`, 0]),
    );
  // A node that names others each time.
  for (let block = 1; block <= 5; block++) report("bad", many(block));
  report("n1", { "10.200.0.1": 1 });
  report("n2", { "10.200.0.1": 1 });
  assert.equal(losses.list().length, 8);
  assert.equal(found()[0], "10.200.0.1: 2 (n1,n2), 2");
  for (let node = 0; node < 10; node++) report(`bad${node}`, many(20 + node));
  report("n3", { "10.201.0.1": 1 });
  assert.equal(found()[0], "10.200.0.1: 2 (n1,n2), 2");
});
