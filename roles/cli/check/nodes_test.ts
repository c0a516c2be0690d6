import assert from "node:assert/strict";
import type { Ran } from "../base/kubectl.ts";
import { parseReport } from "./check.ts";
import { askNodes } from "./nodes.ts";
import { lookerOf } from "./testing.ts";

function ran(report: unknown, more: Partial<Ran> = {}): Ran {
  return { code: 0, stdout: JSON.stringify(report), stderr: "", ...more };
}

const PROBLEM = { object: "Address 1", code: "address-leaked", holder: "c1" };
const REPAIR = { object: "Address 2", code: "address-without-interface" };

Deno.test("askNodes() has what each node found and mended, and takes nothing else for an answer", async () => {
  const answers: Readonly<Record<string, Ran>> = {
    "coild-n1": ran(
      { repairs: [REPAIR], problems: [PROBLEM], unseen: [] },
      { code: 3 },
    ),
    "coild-n2": ran({ problems: [], unseen: [] }),
    "coild-n3": ran({ problems: [], repairs: 1, unseen: [] }),
    "coild-n4": ran({}, {
      code: 2,
      stderr: 'Error: unknown flag "--repair"\nSee help.\n',
    }),
  };
  const asked: string[] = [];
  const report = await askNodes(lookerOf("n1", "n2", "n3", "n4"), {
    exec: ({ namespace, name, container }, args) => {
      asked.push([namespace, name, container, ...args].join(" "));
      const answer = answers[name];
      assert.ok(answer);
      return Promise.resolve(answer);
    },
    args: ["ipam", "check", "--repair"],
    parse: parseReport,
  });
  assert.equal(
    asked[0],
    "kube-system coild-n1 coild ipam check --repair",
  );
  assert.deepEqual([...report.answers], [
    ["n1", { repairs: [REPAIR], problems: [PROBLEM] }],
    ["n2", { repairs: [], problems: [] }],
  ]);
  assert.deepEqual(
    report.unseen.map(({ what, detail }) => `${what}: ${detail}`).toSorted(),
    [
      "Node n3: its answer is not a report",
      'Node n4: Error: unknown flag "--repair"',
    ],
  );
});
