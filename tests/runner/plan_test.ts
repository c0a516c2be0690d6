import assert from "node:assert/strict";
import { isOf, planSteps, type Selection, selectSuites } from "./plan.ts";
import { SUITES } from "./suites.ts";

/** Names of a run's suites, and of those that each waits for. */
function plan(
  selection: Partial<Selection>,
): Readonly<Record<string, readonly string[]>> {
  const suites = selectSuites(SUITES, { names: [], files: [], ...selection });
  return Object.fromEntries(
    planSteps(SUITES, suites).map(({ suite, after }) => [suite.name, after]),
  );
}

Deno.test("planSteps() runs beside each other what leaves processors, and floods beside none that needs them", () => {
  assert.deepEqual(plan({}), {
    static: [],
    unit: [],
    e2e: ["static", "unit"],
    apiserver: ["static", "unit"],
    vm: ["e2e"],
    churn: ["static", "unit"],
    faults: ["e2e"],
    fuzz: ["faults"],
    hostile: ["apiserver", "fuzz"],
    demo: ["hostile"],
    executable: ["fuzz"],
    image: ["executable"],
    netns: ["executable", "hostile"],
    mutants: ["image"],
  });
});

Deno.test("planSteps() waits for what a suite that is left out waits for, and for none twice", () => {
  assert.deepEqual(plan({ names: ["vm"] }), { vm: [] });
  assert.deepEqual(plan({ names: ["vm", "churn"] }), { vm: [], churn: [] });
  assert.deepEqual(plan({ names: ["static", "vm"] }), {
    static: [],
    vm: ["static"],
  });
  assert.deepEqual(plan({ names: ["apiserver", "netns", "mutants"] }), {
    apiserver: [],
    netns: ["apiserver"],
    mutants: [],
  });
  assert.deepEqual(plan({ names: ["unit", "hostile"] }), {
    unit: [],
    hostile: ["unit"],
  });
  assert.deepEqual(plan({ names: ["e2e", "mutants"] }), {
    e2e: [],
    mutants: ["e2e"],
  });
});

Deno.test("selectSuites() takes the suites of the files, beside those of the names", () => {
  const churn = "tests/churn/churn_test.ts";
  const vm = "tests/vm/traffic_test.ts";
  assert.deepEqual(plan({ files: [churn] }), { churn: [] });
  assert.deepEqual(plan({ files: [churn, vm] }), { vm: [], churn: [] });
  assert.deepEqual(plan({ files: [vm], names: ["e2e"] }), {
    e2e: [],
    vm: ["e2e"],
  });
  assert.deepEqual(plan({ files: ["tests/vmless_test.ts"] }), {});
});

Deno.test("each suite waits for others before it alone", () => {
  for (const [index, { name, after = [] }] of SUITES.entries()) {
    const before = SUITES.slice(0, index).map((suite) => suite.name);
    for (const other of after) {
      assert.ok(before.includes(other), `${name} is after ${other}`);
    }
  }
});

Deno.test("a suite's longest files are its own, and there", async () => {
  for (const suite of SUITES) {
    for (const file of suite.longest ?? []) {
      assert.ok(isOf(suite, file) && (await Deno.stat(file)).isFile, file);
    }
  }
});
