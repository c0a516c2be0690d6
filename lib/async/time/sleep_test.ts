import assert from "node:assert/strict";
import {
  abortable,
  sleep,
  startTimer,
  untilAborted,
  withTimeout,
} from "../mod.ts";

const REASON = new Error("enough");

Deno.test("sleep() rejects with the reason at once, and leaves no timer", async () => {
  const controller = new AbortController();
  const sleeping = sleep(60_000, { signal: controller.signal });
  controller.abort(REASON);
  await assert.rejects(sleeping, REASON);
  await assert.rejects(sleep(60_000, { signal: controller.signal }), REASON);
});

Deno.test("sleep() resolves when the time is up", async () => {
  await sleep(1, { signal: new AbortController().signal });
});

Deno.test("sleep() and withTimeout() bear times longer than a timer can run", async () => {
  const controller = new AbortController();
  const { signal } = controller;
  let ended = 0;
  const waits = [2 ** 31, 1e12, Infinity].flatMap((ms) => [
    sleep(ms, { signal }),
    withTimeout(ms, untilAborted, { signal }),
  ]).map((wait) => wait.catch(() => {}).finally(() => ended++));
  await sleep(20);
  assert.equal(ended, 0);
  controller.abort();
  await Promise.all(waits);
});

Deno.test("startTimer() calls back once, and not after its disposal", async () => {
  let calls = 0;
  using _kept = startTimer(1, () => calls++);
  const dropped = startTimer(1, () => calls++);
  dropped[Symbol.dispose]();
  await sleep(20);
  assert.equal(calls, 1);
});

Deno.test("abortable() gives the result or the reason, whichever comes first", async () => {
  const controller = new AbortController();
  assert.equal(await abortable(Promise.resolve(1), controller.signal), 1);
  const never = Promise.withResolvers<void>();
  const waiting = abortable(never.promise, controller.signal);
  controller.abort(REASON);
  await assert.rejects(waiting, REASON);
  never.reject(new Error("Must not surface as an unhandled rejection"));
});

Deno.test("withTimeout() aborts what takes too long, and leaves no timer otherwise", async () => {
  assert.equal(await withTimeout(60_000, () => Promise.resolve(7)), 7);
  await assert.rejects(
    withTimeout(1, (signal) => sleep(60_000, { signal })),
    { name: "TimeoutError" },
  );
});

Deno.test("withTimeout() passes the outer reason on", async () => {
  const controller = new AbortController();
  const running = withTimeout(60_000, (signal) => sleep(60_000, { signal }), {
    signal: controller.signal,
  });
  controller.abort(REASON);
  await assert.rejects(running, REASON);
});

Deno.test("untilAborted() resolves on abort, also one that is past", async () => {
  const controller = new AbortController();
  const waiting = untilAborted(controller.signal);
  controller.abort();
  await waiting;
  await untilAborted(controller.signal);
});
