import assert from "node:assert/strict";
import { exitCodeOf } from "../base/problem.ts";
import { findingsOf, formatJunit, formatReport, reportOf } from "./report.ts";
import { evidenceOf, resultsOf, SILENCE } from "./testing.ts";

const NODES = { nodes: ["node1", "node2"], allNodes: 3 };
const STEPS = { coilds: new Map(), routers: new Map(), egress: "" };

/** Node 2 has no IPv6 route to node 1. */
function broken() {
  const results = resultsOf(({ from, family, to }) =>
    to !== undefined && from.node === "node2" && family === "ipv6"
      ? SILENCE
      : undefined
  );
  const evidence = evidenceOf({ "node2 fd00::1:2": { way: undefined } });
  return reportOf(results, {
    ...NODES,
    problems: findingsOf({ results, evidence }, STEPS),
    unseen: [{ what: "Node node3", why: "unknown", detail: "it is not Ready" }],
  });
}

Deno.test("coil connectivity test shows how many probes failed, and why", () => {
  const report = broken();
  assert.equal(
    formatReport(report),
    `Nodes: 2 of 3

CHECK        PROBES   FAILED
pod          8        2
large        8        2
service      4        0
api-server   2        0

UNKNOWN: Node node3 (it is not Ready)

1 problem:
  Node node2: route: there is no IPv6 route to the pods of Node node1 (2 probes, first Node node2 to [fd00::1:2]:8080 (Node node1) by TCP, no answer)
      coil ipam show blocks
`,
  );
  assert.equal(exitCodeOf(report), 3);
});

Deno.test("coil connectivity test does not take what it does not know for well", () => {
  const well = { ...NODES, problems: [], unseen: [] };
  assert.equal(exitCodeOf(reportOf([], well)), 0);
  const { unseen } = broken();
  assert.equal(exitCodeOf(reportOf([], { ...well, unseen })), 1);
});

Deno.test("coil connectivity test writes JUnit's XML, with what is likely wrong", () => {
  const results = resultsOf(({ check, from }) =>
    check === "api-server" && from.node === "node1"
      ? { why: "other", detail: '<"&\x1b\n>' }
      : undefined
  );
  const evidence = evidenceOf();
  const text = formatJunit(reportOf(results, {
    ...NODES,
    problems: findingsOf({ results, evidence }, STEPS),
    unseen: [],
  }));
  const lines = text.split("\n");
  assert.deepEqual(lines.slice(0, 4), [
    '<?xml version="1.0" encoding="UTF-8"?>',
    '<testsuites name="coil connectivity test">',
    '  <testsuite name="pod" tests="8" failures="0">',
    '    <testcase classname="coil.connectivity.pod" name="Node node1 to 10.0.2.2:8080 (Node node2) by TCP"/>',
  ]);
  const from = lines.findIndex((line) => line.includes('name="api-server"'));
  assert.deepEqual(lines.slice(from, from + 4), [
    '  <testsuite name="api-server" tests="2" failures="1">',
    '    <testcase classname="coil.connectivity.api-server" name="Node node1 to 10.96.0.1:443 by TCP"><failure message="&lt;&quot;&amp; &#10;&gt;"/></testcase>',
    '    <testcase classname="coil.connectivity.api-server" name="Node node2 to 10.96.0.1:443 by TCP"/>',
    "  </testsuite>",
  ]);
  assert.match(
    text,
    /<testsuite name="problems" tests="1" failures="1">\n.*name="Node node1"><failure message="proxy: pods do not reach the API server/,
  );
  assert.match(text, /<\/testsuite>\n<\/testsuites>\n$/);
});
