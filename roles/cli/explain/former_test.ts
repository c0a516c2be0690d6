import assert from "node:assert/strict";
import { Address } from "../../../lib/inet/mod.ts";
import type { Ran } from "../base/kubectl.ts";
import { lookerOf } from "../check/testing.ts";
import { askFormerOfNodes } from "./former.ts";
import { formatFormer } from "./text.ts";

const ADDRESSES = ["10.2.0.9", "fd02::9"];
const NOW = new Date("2026-01-01T01:00:00Z");

function holder(containerId: string, minute: number): object {
  const until = `2026-01-01T00:${`${minute}`.padStart(2, "0")}:00.000Z`;
  return { addresses: ADDRESSES, containerId, ifname: "eth0", until };
}

function ran(answer: unknown): Ran {
  return { code: 0, stdout: JSON.stringify(answer), stderr: "" };
}

Deno.test("askFormerOfNodes() joins what all nodes remember, the last one first, and takes nothing else for an answer", async () => {
  const answers: Readonly<Record<string, Ran>> = {
    "coild-n1": ran([holder("a", 30), holder("b", 10)]),
    "coild-n2": ran([holder("c", 20)]),
    "coild-n3": ran([{ containerId: "d" }]),
    "coild-n4": { code: 2, stdout: "", stderr: 'Error: flag "--local"\n' },
  };
  const asked: string[] = [];
  const report = await askFormerOfNodes(lookerOf("n1", "n2", "n3", "n4"), {
    exec: ({ name }, args) => {
      asked.push([name, ...args].join(" "));
      const answer = answers[name];
      assert.ok(answer);
      return Promise.resolve(answer);
    },
    socket: "/run/x.sock",
    addresses: ADDRESSES.map((text) => Address.parse(text)),
  });
  assert.deepEqual(asked.filter((text) => text.startsWith("coild-n1")), [
    ...ADDRESSES.map((text) =>
      `coild-n1 explain --local --output=json --socket=/run/x.sock ${text}`
    ),
  ]);
  assert.deepEqual(
    report.former.map(({ node, containerId }) => `${node} ${containerId}`),
    ["n1 a", "n2 c", "n1 b"],
  );
  assert.deepEqual(
    report.unseen.map(({ what, why, detail }) => `${what} ${why}: ${detail}`)
      .toSorted(),
    [
      "Node n3 unknown: its answer is not a list of former holders",
      'Node n4 unknown: Error: flag "--local"',
    ],
  );
});

Deno.test("formatFormer() names pods or containers, at most ten, without what moves a cursor", () => {
  const base = { addresses: ADDRESSES, ifname: "eth0" };
  const until = "2026-01-01T00:30:00Z";
  const named = { namespace: "apps", pod: "web\x1b[1m", containerId: "c" };
  assert.equal(
    formatFormer([
      { ...base, ...named, until },
      { ...base, containerId: "c2", until: "2025-12-31T22:00:00Z" },
    ], NOW),
    "Pod apps/web [1m had it until 30m ago\nContainer c2 had it until 3h ago\n",
  );
  const many = Array.from(
    { length: 12 },
    (_, n) => ({ ...base, containerId: `c${n}`, until }),
  );
  assert.match(
    formatFormer(many, NOW),
    /^Container c9 .*\n… and 2 more before: -o json\n$/m,
  );
  assert.equal(
    formatFormer([], NOW),
    "No former holder within a day\n",
  );
});
