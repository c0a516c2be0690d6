import assert from "node:assert/strict";
import { UncaughtErrors } from "./uncaught_errors.ts";

/** A failure beside the tests, which ended all of its file's without a word in the report. */
const OUTPUT = `
Uncaught error from ./tests/a_test.ts FAILED
./tests/a_test.ts => first ... cancelled (0ms)

\x1b[1m ERRORS \x1b[22m

\x1b[1m./tests/a_test.ts (uncaught error)\x1b[22m
error: (in promise) ReferenceError: gc is not defined
    at main (file:///a.ts:1:1)
This error was not caught from a test and caused the test runner to fail on the referenced module.
It most likely originated from a dangling promise, event/timeout handler or top-level code.

./tests/b_test.ts (uncaught error)
error: Module not found

 FAILURES 

./tests/a_test.ts (uncaught error)
./tests/b_test.ts (uncaught error)

FAILED | 2 passed (113 steps) | 6 failed (23s)
`;

Deno.test("an error that no test caught is told of with its text", () => {
  const errors = new UncaughtErrors();
  for (const line of OUTPUT.split("\n")) errors.line(line);
  assert.deepEqual(errors.failures, [
    {
      name: "./tests/a_test.ts: an error that no test caught",
      lines: [
        "error: (in promise) ReferenceError: gc is not defined",
        "    at main (file:///a.ts:1:1)",
      ],
    },
    {
      name: "./tests/b_test.ts: an error that no test caught",
      lines: ["error: Module not found"],
    },
  ]);
});

Deno.test("tests that go well leave no uncaught errors", () => {
  const errors = new UncaughtErrors();
  errors.line("first ... ok (5ms)");
  errors.line("ok | 1 passed | 0 failed (10ms)");
  assert.deepEqual(errors.failures, []);
});
