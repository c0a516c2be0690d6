import assert from "node:assert/strict";
import { formatAge } from "./time.ts";

const NOW = new Date("2026-06-01T00:00:00Z");

for (
  const [seconds, text] of [
    [-5, "0s"],
    [0, "0s"],
    [119, "119s"],
    [120, "2m"],
    [125, "2m5s"],
    [600, "10m"],
    [3600 * 3 - 1, "179m"],
    [3600 * 3, "3h"],
    [3600 * 7 + 60 * 5, "7h5m"],
    [3600 * 47, "47h"],
    [3600 * 48, "2d"],
    [3600 * 24 * 3 + 3600 * 4, "3d4h"],
    [3600 * 24 * 9 + 3600 * 4, "9d"],
    [3600 * 24 * 365 * 2 + 3600 * 24 * 3, "2y3d"],
    [3600 * 24 * 365 * 9, "9y"],
  ] as const
) {
  Deno.test(`formatAge() of ${seconds} s is ${text}`, () => {
    const since = new Date(NOW.getTime() - seconds * 1000).toISOString();
    assert.equal(formatAge(since, NOW), text);
  });
}

Deno.test("formatAge() without a time is a dash", () => {
  assert.equal(formatAge(undefined, NOW), "-");
});
