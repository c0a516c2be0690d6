import assert from "node:assert/strict";
import { FakeClock } from "../../lib/async/testing.ts";
import { StallWatch } from "./stall.ts";

const MINUTE_MS = 60_000;

Deno.test("StallWatch ends a suite that prints nothing for 20 minutes", async () => {
  const clock = new FakeClock();
  await using watch = new StallWatch({ clock });
  await clock.advance(19 * MINUTE_MS);
  watch.heard();
  await clock.advance(19 * MINUTE_MS);
  assert.equal(watch.reason, undefined);
  await clock.advance(MINUTE_MS);
  assert.equal(watch.reason, "ended: it printed nothing for 20 minutes");
  assert.ok(watch.signal.aborted);
});

Deno.test("StallWatch ends a suite that takes longer than 60 minutes, also while it prints", async () => {
  const clock = new FakeClock();
  await using watch = new StallWatch({ clock });
  for (let minute = 0; minute < 60; minute++) {
    assert.equal(watch.reason, undefined, `minute ${minute}`);
    watch.heard();
    await clock.advance(MINUTE_MS);
  }
  assert.equal(watch.reason, "ended: it took longer than 60 minutes");
});

Deno.test("StallWatch ends nothing after its disposal", async () => {
  const clock = new FakeClock();
  const watch = new StallWatch({ clock });
  await watch[Symbol.asyncDispose]();
  await clock.advance(61 * MINUTE_MS);
  assert.equal(watch.reason, undefined);
});

Deno.test("StallWatch ends a suite one of whose files takes longer than 5 minutes, also while it prints", async () => {
  const clock = new FakeClock();
  let running = ["a_test.ts", "b_test.ts"];
  await using watch = new StallWatch({
    clock,
    running: () => Promise.resolve(running),
  });
  await clock.advance(4 * MINUTE_MS);
  running = ["b_test.ts"];
  await clock.advance(0.5 * MINUTE_MS);
  running = ["a_test.ts", "b_test.ts"];
  await clock.advance(0.5 * MINUTE_MS);
  watch.heard();
  assert.equal(watch.reason, undefined);
  await clock.advance(0.2 * MINUTE_MS);
  assert.equal(watch.reason, "ended: b_test.ts took longer than 5 minutes");
});

Deno.test("StallWatch does not end a suite of many files, each of which is short", async () => {
  const clock = new FakeClock();
  let running: readonly string[] = [];
  await using watch = new StallWatch({
    clock,
    running: () => Promise.resolve(running),
  });
  for (let n = 0; n < 10; n++) {
    running = [`file${n % 2}_test.ts`];
    await clock.advance(4.5 * MINUTE_MS);
    watch.heard();
  }
  assert.equal(watch.reason, undefined);
});

Deno.test("StallWatch looks at nothing after its disposal", async () => {
  const clock = new FakeClock();
  let looks = 0;
  const watch = new StallWatch({
    clock,
    running: () => Promise.resolve([`${looks++}`]),
  });
  await clock.advance(MINUTE_MS);
  assert.equal(looks, 12);
  await watch[Symbol.asyncDispose]();
  await clock.advance(MINUTE_MS);
  assert.equal(looks, 12);
  assert.equal(clock.pending, 0);
});
