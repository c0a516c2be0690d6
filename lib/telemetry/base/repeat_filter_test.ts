import assert from "node:assert/strict";
import { RepeatFilter } from "./repeat_filter.ts";

Deno.test("RepeatFilter tells each text once, and again after a while", () => {
  let now = 0;
  const filter = new RepeatFilter({ remindMs: 1_000, now: () => now });
  const told = (): unknown[] =>
    [new Error("a"), "b", new Error("a")].filter((what) => filter.passes(what))
      .map(String);
  assert.deepEqual(told(), ["Error: a", "b"]);
  now = 999;
  assert.deepEqual(told(), []);
  now = 1_000;
  assert.deepEqual(told(), ["Error: a", "b"]);
});

Deno.test("RepeatFilter remembers only so many texts", () => {
  const filter = new RepeatFilter({ now: () => 0 });
  for (let i = 0; i < 10_000; i++) assert.ok(filter.passes(`text ${i}`));
  assert.ok(!filter.passes("text 9999"));
  assert.ok(filter.passes("text 0"));
});
