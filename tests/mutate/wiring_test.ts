import assert from "node:assert/strict";
import { ROOT } from "../arch/ranks.ts";
import { WIRING } from "./wiring.ts";
import { judge, replaceOnce } from "./wiring_trial.ts";

Deno.test("replaceOnce() refuses a text that is not there exactly once", () => {
  const change = { from: "a", to: "b", file: "x.ts" };
  assert.equal(replaceOnce("cac", change), "cbc");
  assert.throws(() => replaceOnce("ccc", change), RangeError);
  assert.throws(() => replaceOnce("aca", change), RangeError);
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
