import assert from "node:assert/strict";
import { FakeClock } from "../../lib/async/testing.ts";
import { StallWatch } from "./stall.ts";

const MINUTE_MS = 60_000;

Deno.test("StallWatch ends a suite that prints nothing for 20 minutes", async () => {
  const clock = new FakeClock();
  using watch = new StallWatch({ clock });
  await clock.advance(19 * MINUTE_MS);
  watch.heard();
  await clock.advance(19 * MINUTE_MS);
  assert.equal(watch.reason, undefined);
  await clock.advance(MINUTE_MS);
  assert.equal(watch.reason, "ended: it printed nothing for 20 minutes");
  assert.ok(watch.signal.aborted);
});

Deno.test("StallWatch ends a suite that takes longer than 60 minutes, whatever it prints", async () => {
  const clock = new FakeClock();
  using watch = new StallWatch({ clock });
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
  watch[Symbol.dispose]();
  await clock.advance(61 * MINUTE_MS);
  assert.equal(watch.reason, undefined);
});
