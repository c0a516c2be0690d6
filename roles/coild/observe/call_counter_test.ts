import assert from "node:assert/strict";
import { CallCounter } from "./call_counter.ts";

Deno.test("CallCounter.isBusy() is true during a call and once after it", async () => {
  const calls = new CallCounter();
  assert.equal(calls.isBusy(), false);
  const { promise, resolve } = Promise.withResolvers<void>();
  const call = calls.count(() => promise);
  assert.deepEqual([calls.isBusy(), calls.isBusy()], [true, true]);
  resolve();
  await call;
  assert.equal(calls.isBusy(), false);
  // Between two looks, as pods that come one by one.
  await calls.count(() => Promise.resolve());
  assert.deepEqual([calls.isBusy(), calls.isBusy()], [true, false]);
});

Deno.test("CallCounter.count() passes errors on, and the call is over", async () => {
  const calls = new CallCounter();
  await assert.rejects(calls.count(() => Promise.reject(new Error("no"))), {
    message: "no",
  });
  calls.isBusy();
  assert.equal(calls.isBusy(), false);
});
