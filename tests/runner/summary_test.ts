import assert from "node:assert/strict";
import { ZERO } from "./junit.ts";
import { summarize } from "./summary.ts";

const GOOD = {
  name: "vm",
  counts: { ...ZERO, passed: 2 },
  seconds: 880.4,
};
const BAD = {
  name: "churn",
  counts: {
    passed: 1,
    failures: [{ name: "jobs", lines: ["10.0.0.1 is both", "a's and b's"] }],
    skipped: [],
  },
  seconds: 700,
};
const SKIPPED = {
  name: "e2e",
  counts: { ...ZERO, skipped: ["all of e2e: not root"] },
  seconds: 0,
};

Deno.test("summarize() adds all up, and tells of failures first", () => {
  assert.deepEqual(summarize([GOOD, BAD], { allowSkips: false }), {
    lines: [
      "\nFAILED churn: jobs",
      "    10.0.0.1 is both",
      "    a's and b's",
      "",
      "vm          2 passed, 0 failed, 0 skipped (880 s)",
      "churn       1 passed, 1 failed, 0 skipped (700 s)",
      "3 passed, 1 failed",
    ],
    isGood: false,
  });
});

Deno.test("summarize() takes a skip for a failure unless skips are allowed", () => {
  const strict = summarize([GOOD, SKIPPED], { allowSkips: false });
  assert.equal(strict.isGood, false);
  assert.deepEqual(strict.lines.slice(-2), [
    "skipped: all of e2e: not root",
    "2 passed, 1 failed",
  ]);
  const lax = summarize([GOOD, SKIPPED], { allowSkips: true });
  assert.equal(lax.isGood, true);
  assert.equal(lax.lines.at(-1), "2 passed, 0 failed");
});

Deno.test("summarize() repeats what is worth reading, which fails nothing", () => {
  const notes = ["survived  lib/a.ts:3  a  ->  b"];
  const mutants = { ...GOOD, name: "mutants", counts: { ...ZERO, notes } };
  const { lines, isGood } = summarize([mutants, GOOD], { allowSkips: false });
  assert.deepEqual(lines.slice(0, 2), ["", ...notes]);
  assert.equal(isGood, true);
});

Deno.test("summarize() does not call a run good in which nothing passed", () => {
  assert.equal(summarize([], { allowSkips: true }).isGood, false);
});
