import assert from "node:assert/strict";
import { waitWhile } from "../mod.ts";

Deno.test("waitWhile() looks until nothing is found", async () => {
  const finds = [1, 2, undefined, 3];
  await waitWhile(() => Promise.resolve(finds.shift()), {
    timeoutMs: 60_000,
    pollMs: 0,
    late: () => new Error("late"),
  });
  assert.deepEqual(finds, [3]);
});

Deno.test("waitWhile() says after its time what was found last, after one look at least", async () => {
  const late = (found: number) => new Error(`still ${found}`);
  const options = { timeoutMs: 0, pollMs: 0, late };
  await assert.rejects(waitWhile(() => Promise.resolve(7), options), /still 7/);
});

Deno.test("waitWhile() ends by its signal", async () => {
  const signal = AbortSignal.abort(new Error("stop"));
  const wait = waitWhile(() => Promise.resolve(1), {
    timeoutMs: 60_000,
    pollMs: 60_000,
    signal,
    late: () => new Error("late"),
  });
  await assert.rejects(wait, /stop/);
});
