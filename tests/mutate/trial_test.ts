import assert from "node:assert/strict";
import { ROOT } from "../arch/ranks.ts";
import { importersOf } from "./importers.ts";
import { isProduction } from "./tree.ts";
import { roundsFor, runRound, TRIED_SUITES } from "./trial.ts";
import { WIRING } from "./wiring.ts";
import { judge, replaceOnce } from "./wiring_trial.ts";

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
    assert.equal(await runRound(round, { root, timeoutMs }), outcome);
    if (outcome !== "timed out") {
      let output = "";
      const onOutput = (text: string) => void (output = text);
      await runRound(round, { root, timeoutMs, onOutput });
      assert.match(output, /^one \.\.\./m);
    }
    await Deno.remove(root, { recursive: true });
  });
}

Deno.test("replaceOnce() refuses a text that is not there exactly once", () => {
  const change = { from: "a", to: "b", file: "x.ts" };
  assert.equal(replaceOnce("cac", change), "cbc");
  assert.throws(() => replaceOnce("ccc", change), RangeError);
  assert.throws(() => replaceOnce("aca", change), RangeError);
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

Deno.test("each wiring mutant can be made, and its test is there", async () => {
  for (const { file, from, to, test } of WIRING) {
    const text = await Deno.readTextFile(`${ROOT}${file}`);
    assert.notEqual(replaceOnce(text, { from, to, file }), text);
    const tests = await Deno.readTextFile(`${ROOT}${test.file}`);
    for (const part of [test.filter, test.step]) {
      assert.ok(tests.includes(part ?? ""), `${test.file}: ${part}`);
    }
  }
});

Deno.test("docs/testing.md lists the wiring mutants, each with its test", async () => {
  const text = await Deno.readTextFile(`${ROOT}docs/testing.md`);
  const rows = WIRING.map(({ name, test: { file, filter, step = filter } }) =>
    `| ${name} | \`${file}\`: ${step} |`
  );
  const start = text.indexOf(rows[0] ?? "");
  assert.equal(text.slice(start).split("\n\n")[0], rows.join("\n"));
});

Deno.test("judge() counts a change as killed only by its own test", () => {
  const failed = ["coild outlives faults", "coild outlives faults ... W21: a"];
  assert.equal(judge(failed, "W21"), "killed");
  assert.equal(judge(failed, ""), "killed");
  assert.equal(judge(failed, "W7"), "not by its test");
  // It could not be made, or built.
  assert.equal(judge([], ""), "not by its test");
  assert.equal(judge(undefined, "W21"), "survived");
});
