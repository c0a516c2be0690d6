import assert from "node:assert/strict";
import { isProgress, Progress } from "./progress.ts";

function after(...lines: readonly string[]): Progress {
  const progress = new Progress();
  for (const line of lines) progress.line(line);
  return progress;
}

Deno.test("Progress names the running test and its steps", () => {
  const progress = after(
    "running 4 tests from ./a_test.ts",
    "one ...",
    "  inner ...",
    "    deep ...",
    "    deep ... \x1b[0m\x1b[32mok\x1b[0m (709ms)",
    "  inner ... FAILED (due to 1 failed step) (3s)",
    "  second ...",
  );
  assert.deepEqual(progress.describe(["a_test.ts"]), [
    "running: one > second (a_test.ts)",
  ]);
  assert.deepEqual(progress.describe([]), ["running: one > second"]);
});

Deno.test("Progress does not take a test's output for a test", () => {
  const progress = after(
    "running 1 test from ./a_test.ts",
    "one ...",
    "------- output -------",
    "two ...",
    "----- output end -----",
  );
  assert.deepEqual(progress.describe([]), ["running: one"]);
});

Deno.test("Progress goes on after an output whose last line was not ended", () => {
  const progress = after(
    "running 2 tests from ./a_test.ts",
    "one ...",
    "------- output -------",
    "half a line----- output end -----",
    "one ... ok (3s)",
    "two ...",
  );
  assert.deepEqual(progress.current, ['"two"']);
});

Deno.test("Progress names the last result of a file between two of its tests", () => {
  const progress = after(
    "running 2 tests from ./a_test.ts",
    "one ...",
    "one ... ok (3s)",
  );
  assert.deepEqual(progress.describe(["a_test.ts", "b_test.ts"]), [
    'running: a_test.ts, after "one"',
    "running: b_test.ts, before its first result",
  ]);
});

Deno.test("Progress names the last result of each file that runs beside others", () => {
  const progress = after(
    "\x1b[38;5;245m./a_test.ts =>\x1b[0m one ... inner ... \x1b[32mok\x1b[0m (2s)",
    "\x1b[38;5;245m./b_test.ts => \x1b[0mtwo ... FAILED (1s)",
    "./a_test.ts => one ... ok (3s)",
  );
  assert.deepEqual(progress.describe(["a_test.ts", "b_test.ts"]), [
    'running: a_test.ts, after "one"',
    'running: b_test.ts, after "two"',
  ]);
});

Deno.test("Progress has the running test, without its steps and only while it runs", () => {
  const lines = ["running 2 tests from ./a_test.ts", "one ...", "  inner ..."];
  assert.deepEqual(after(...lines).current, ['"one"']);
  assert.deepEqual(after(...lines, "one ... ok (3s)").current, []);
  assert.deepEqual(after("./a_test.ts => one ... ok (3s)").current, []);
});

Deno.test("isProgress() does not count deno's notice that a test is slow", () => {
  const notice = "'one' has been running for over (1m0s)\n";
  assert.equal(isProgress(notice), false);
  assert.equal(isProgress(`\x1b[38;5;245m\n${notice}${notice}\x1b[0m`), false);
  assert.equal(isProgress(`${notice}one ... ok (61s)\n`), true);
  assert.equal(isProgress("one ..."), true);
});
