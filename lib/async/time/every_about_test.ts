import assert from "node:assert/strict";
import { everyAbout } from "../mod.ts";
import { RecordingClock } from "../testing.ts";

Deno.test("everyAbout() waits about as long before each time, until the signal", async () => {
  const stop = new AbortController();
  const { signal } = stop;
  const clock = new RecordingClock();
  const waitsBefore: number[] = [];
  const working = everyAbout(1_000, async () => {
    waitsBefore.push(clock.delays.length);
    await Promise.resolve();
    if (waitsBefore.length === 3) stop.abort(new Error("enough"));
  }, { signal, clock });
  await assert.rejects(working, /enough/);
  assert.deepEqual(waitsBefore, [1, 2, 3]);
  assert.ok(clock.delays.every((ms) => ms >= 500 && ms <= 1_500));
  assert.ok(new Set(clock.delays).size > 1);
});

Deno.test("everyAbout() ends with an error of the work", async () => {
  const work = () => Promise.reject(new Error("no"));
  const clock = new RecordingClock();
  await assert.rejects(everyAbout(1, work, { clock }), /no/);
  assert.equal(clock.delays.length, 1);
});
