import assert from "node:assert/strict";
import { WritePace } from "./write_pace.ts";

Deno.test("WritePace lets numbers wait until a while after the last write of that object", () => {
  let nowMs = 5_000;
  const clock = {
    nowMs: () => nowMs,
    after: () => ({ [Symbol.dispose]: () => {} }),
  };
  let random = 0;
  const pace = new WritePace({
    intervalMs: 1_000,
    clock,
    random: () => random,
  });
  assert.equal(pace.waitMs("a"), 0, "never written");
  pace.wrote("a");
  assert.equal(pace.waitMs("a"), 1_000);
  assert.equal(pace.waitMs("b"), 0);
  nowMs += 400;
  assert.equal(pace.waitMs("a"), 600);
  nowMs += 600;
  assert.equal(pace.waitMs("a"), 0);
  random = 0.5;
  pace.wrote("a");
  assert.equal(pace.waitMs("a"), 1_100, "more, by chance");
  pace.forget("a");
  assert.equal(pace.waitMs("a"), 0);
});
