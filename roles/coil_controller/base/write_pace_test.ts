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

Deno.test("WritePace lets numbers wait for the end of a burst, no longer than the interval", () => {
  let nowMs = 0;
  const clock = {
    nowMs: () => nowMs,
    after: () => ({ [Symbol.dispose]: () => {} }),
  };
  const pace = new WritePace({ intervalMs: 15, quietMs: 2, clock });
  assert.equal(pace.waitMs("a", "1"), 2);
  nowMs = 1;
  assert.equal(pace.waitMs("a", "1"), 1, "the same");
  assert.equal(pace.waitMs("a", "2"), 2, "another number");
  nowMs = 3;
  assert.equal(pace.waitMs("a", "2"), 0);
  for (; nowMs < 15; nowMs++) {
    const waitMs = pace.waitMs("a", `${nowMs}`);
    assert.equal(waitMs, Math.min(2, 15 - nowMs), `after ${nowMs} ms`);
  }
  assert.equal(pace.waitMs("a", "15"), 0, "the interval is over");
  pace.wrote("a");
  nowMs = 40;
  assert.equal(pace.waitMs("a", "15"), 2, "the next burst");
  pace.forget("a");
  nowMs = 42;
  assert.equal(pace.waitMs("a", "15"), 2, "another object of the name");
});
