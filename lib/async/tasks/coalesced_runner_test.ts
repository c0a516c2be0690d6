import assert from "node:assert/strict";
import { CoalescedRunner, Gate, sleep } from "../mod.ts";

Deno.test("CoalescedRunner runs once for a burst, and once more for triggers during a run", async () => {
  const controller = new AbortController();
  const gate = new Gate();
  let runs = 0;
  const runner = new CoalescedRunner(async () => {
    runs++;
    if (runs === 1) await gate.wait();
  });
  for (let i = 0; i < 5; i++) runner.trigger();
  const running = runner.run(controller.signal);
  await sleep(1);
  assert.equal(runs, 1);
  for (let i = 0; i < 5; i++) runner.trigger();
  gate.open();
  await sleep(1);
  assert.equal(runs, 2);
  controller.abort();
  await running;
});

Deno.test("CoalescedRunner keeps the interval between runs, and ends while in it", async () => {
  const controller = new AbortController();
  let runs = 0;
  const runner = new CoalescedRunner(() => {
    runs++;
    runner.trigger();
    return Promise.resolve();
  }, { minIntervalMs: 60_000 });
  runner.trigger();
  const running = runner.run(controller.signal);
  await sleep(2);
  assert.equal(runs, 1);
  controller.abort();
  await running;
});

Deno.test("CoalescedRunner ends with the error of its function", async () => {
  const failure = new Error("broken");
  const runner = new CoalescedRunner(() => Promise.reject(failure));
  runner.trigger();
  await assert.rejects(runner.run(new AbortController().signal), failure);
});

Deno.test("CoalescedRunner returns when its function stops on the signal", async () => {
  const controller = new AbortController();
  const runner = new CoalescedRunner((signal) => sleep(60_000, { signal }));
  runner.trigger();
  const running = runner.run(controller.signal);
  await sleep(1);
  controller.abort();
  await running;
});
