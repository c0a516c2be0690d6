import assert from "node:assert/strict";
import { ServerCounts } from "./server_counts.ts";

const TEXT = `# HELP a_total About a.
a_total{resource="pods",verb="PUT"} 3
a_total{resource="pods",verb="POST"} 4.5
a_total{resource="podgroups",verb="PUT"} 100
a_total_seconds_sum{resource="pods",verb="PUT"} 1000
b_total 7
`;

Deno.test("ServerCounts adds up the samples of a metric that have the labels", () => {
  const counts = new ServerCounts(TEXT);
  assert.equal(counts.sum("a_total"), 107.5);
  assert.equal(counts.sum("a_total", { resource: /^pods$/ }), 7.5);
  const both = { resource: /^pods$/, verb: /^PUT$/ };
  assert.equal(counts.sum("a_total", both), 3);
  assert.equal(counts.sum("a_total", { namespace: /^x$/ }), 0);
  assert.equal(counts.sum("none_total"), 0);
});

Deno.test("ServerCounts.writes are those of objects of Coil's, and those refused among them", () => {
  const sample = (
    resource: string,
    verb: string,
    code: number,
    count: number,
  ) =>
    `apiserver_request_total{code="${code}",resource="${resource}",verb="${verb}"} ${count}\n`;
  const counts = new ServerCounts(
    sample("addressblocks", "POST", 201, 1) +
      sample("addressblocks", "POST", 409, 2) +
      sample("blockrequests", "PUT", 200, 4) +
      sample("addresspools", "PATCH", 500, 8) +
      sample("blockrequests", "WATCH", 200, 16) +
      sample("pods", "POST", 429, 32),
  );
  assert.deepEqual(counts.writes, { all: 15, refused: 10 });
});
