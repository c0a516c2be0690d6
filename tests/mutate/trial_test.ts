import assert from "node:assert/strict";
import { importersOf } from "./importers.ts";
import { isProduction } from "./tree.ts";
import { roundsFor, runRound, TestOrder, TRIED_SUITES } from "./trial.ts";

Deno.test("importersOf() follows imports through other files", () => {
  const at = (file: string, ...imports: readonly string[]) => ({
    specifier: `file:///tree/${file}`,
    dependencies: imports.map((one) => ({
      code: { specifier: `file:///tree/${one}` },
    })),
  });
  const modules = [
    at("lib/a_test.ts", "lib/a.ts"),
    at("lib/a.ts", "lib/b.ts"),
    at("lib/b.ts", "lib/a.ts"),
    at("lib/c_test.ts"),
  ];
  const tests = ["lib/a_test.ts", "lib/c_test.ts"];
  const importers = importersOf(modules, { root: "/tree", tests });
  assert.deepEqual(importers.get("lib/b.ts"), ["lib/a_test.ts"]);
});

Deno.test("roundsFor() runs the nearest tests first, and those of other units only when asked", () => {
  const importers = [
    "roles/coild/x_test.ts",
    "lib/ipam/pool/y_test.ts",
    "lib/ipam/node/z_test.ts",
    "tests/scale/ipam_a_test.ts",
    "tests/scale/node_a_test.ts",
  ];
  const rounds = (all: boolean) =>
    roundsFor("lib/ipam/node/a.ts", importers, { all }).map(({ files }) =>
      files
    );
  const own = [
    ["lib/ipam/node/z_test.ts"],
    [
      "lib/ipam/pool/y_test.ts",
      "tests/scale/ipam_a_test.ts",
      "tests/scale/node_a_test.ts",
    ],
  ];
  assert.deepEqual(rounds(false), own);
  assert.deepEqual(rounds(true), [...own, ["roles/coild/x_test.ts"]]);
});

const TESTS = [
  { body: "", outcome: "passed" },
  { body: "throw new Error()", outcome: "killed" },
  { body: "while (true);", outcome: "timed out", timeoutMs: 1_000 },
];

for (const { body, outcome, timeoutMs = 600_000 } of TESTS) {
  Deno.test(`runRound() with a test of which is ${outcome}`, async () => {
    const root = await Deno.makeTempDir();
    const text = `Deno.test("one", () => { ${body} });`;
    await Deno.writeTextFile(`${root}/a_test.ts`, text);
    const [suite] = TRIED_SUITES;
    assert.ok(suite);
    const round = { suite, files: ["a_test.ts"] };
    const order = new TestOrder();
    const options = { root, order, timeoutMs };
    const result = await runRound(round, options);
    assert.equal(result.outcome, outcome);
    assert.equal(result.by, outcome === "killed" ? "a_test.ts" : undefined);
    if (outcome !== "timed out") {
      let output = "";
      const onOutput = (text: string) => void (output = text);
      await runRound(round, { ...options, onOutput });
      assert.match(output, /^one \.\.\./m);
    }
    await Deno.remove(root, { recursive: true });
  });
}

Deno.test("TestOrder has files first whose tests, or steps of them, failed last", () => {
  const order = new TestOrder();
  const files = ["lib/a_test.ts", "lib/b_test.ts", "lib/c_test.ts"];
  const changed = "lib/x.ts";
  assert.deepEqual(order.sorted(files, changed), files);
  const outputs = [
    "one => ./lib/b_test.ts:3:6\nerror: at file:///x/lib/a_test.ts:4",
    "x ... y => ./lib/c_test.ts:12:9\n",
    "\n./lib/a_test.ts (uncaught error)\n",
    "running 1 test from ./lib/a_test.ts\nrunning 2 tests from ./lib/c_test.ts\nx => ./lib/testing.ts:1:2\n",
    "Killed\n",
  ];
  assert.deepEqual(outputs.map((output) => order.learn(output)), [
    "lib/b_test.ts",
    "lib/c_test.ts",
    "lib/a_test.ts",
    "lib/c_test.ts",
    undefined,
  ]);
  assert.deepEqual(order.sorted(files, changed), [
    "lib/c_test.ts",
    "lib/a_test.ts",
    "lib/b_test.ts",
  ]);
});

Deno.test("TestOrder has files first that are called as the changed one", () => {
  const order = new TestOrder();
  const files = [
    "tests/netns/coordinator_probes_test.ts",
    "tests/netns/coordinator_upkeep_test.ts",
  ];
  order.learn("x => ./tests/netns/coordinator_probes_test.ts:1:2\n");
  const firstFor = (changed: string) => order.sorted(files, changed)[0];
  assert.equal(firstFor("lib/coordinator/upkeep/upkeep.ts"), files[1]);
  assert.equal(firstFor("lib/coordinator/plan/plan.ts"), files[0]);
});

Deno.test("isProduction() leaves out tests, what only they use, and generated files", () => {
  assert.deepEqual(
    [
      "lib/a/b.ts",
      "main.ts",
      "lib/a/b_test.ts",
      "lib/a/testing.ts",
      "lib/a/gen/b.ts",
      "tests/run.ts",
    ].filter(isProduction),
    ["lib/a/b.ts", "main.ts"],
  );
});
