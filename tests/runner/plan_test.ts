import assert from "node:assert/strict";
import { isOf, planTurns, type Selection, selectSuites } from "./plan.ts";
import { SUITES } from "./suites.ts";

/** Names of a run's suites: one turn in each list, who shows what it does first. */
function plan(selection: Partial<Selection>): readonly (readonly string[])[] {
  const suites = selectSuites(SUITES, { names: [], files: [], ...selection });
  return planTurns(suites).map(({ suite, beside }) =>
    [suite, ...beside].map(({ name }) => name)
  );
}

Deno.test("planTurns() runs what waits beside the virtual machine, what is left beside churn, and all else alone", () => {
  assert.deepEqual(plan({}), [
    ...[["static"], ["unit"], ["e2e"], ["apiserver"]],
    [
      ...["vm", "churn", "faults", "fuzz", "hostile", "demo"],
      ...["executable", "image", "netns", "mutants"],
    ],
  ]);
});

Deno.test("planTurns() runs each suite once, whichever are asked for", () => {
  assert.deepEqual(plan({ names: ["vm"] }), [["vm"]]);
  assert.deepEqual(plan({ names: ["churn"] }), [["churn"]]);
  assert.deepEqual(plan({ names: ["e2e", "churn"] }), [["e2e"], ["churn"]]);
  assert.deepEqual(plan({ names: ["churn", "vm"] }), [["vm", "churn"]]);
});

Deno.test("selectSuites() takes the suites of the files, beside those of the names", () => {
  const churn = "tests/churn/churn_test.ts";
  const vm = "tests/vm/traffic_test.ts";
  assert.deepEqual(plan({ files: [churn] }), [["churn"]]);
  assert.deepEqual(plan({ files: [churn, vm] }), [["vm", "churn"]]);
  assert.deepEqual(plan({ files: [vm], names: ["e2e"] }), [["e2e"], ["vm"]]);
  assert.deepEqual(plan({ files: ["tests/vmless_test.ts"] }), []);
});

Deno.test("planTurns() waits for no suite that there is not, and that does not wait itself", () => {
  for (const { name, beside } of SUITES) {
    if (beside === undefined) continue;
    const other = SUITES.find((suite) => suite.name === beside);
    assert.ok(other !== undefined, `${name} is beside ${beside}`);
    assert.equal(other.beside, undefined, `${name} is beside ${beside}`);
  }
});

Deno.test("each suite that begins after another is beside it or the same one, and later among all", () => {
  for (const [index, { name, after, beside }] of SUITES.entries()) {
    if (after === undefined) continue;
    const other = SUITES.slice(0, index).find((suite) => suite.name === after);
    assert.ok(other !== undefined, `${name} is after ${after}`);
    const { beside: same = other.name } = other;
    assert.equal(same, beside, `${name} is after ${after}`);
  }
});

Deno.test("a suite's longest files are its own, and there", async () => {
  for (const suite of SUITES) {
    for (const file of suite.longest ?? []) {
      assert.ok(isOf(suite, file) && (await Deno.stat(file)).isFile, file);
    }
  }
});
