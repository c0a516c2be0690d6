import assert from "node:assert/strict";
import { sleep, TaskGroup, untilAborted } from "../mod.ts";

Deno.test("TaskGroup.wait() rethrows the first failure after all tasks ended", async () => {
  const group = new TaskGroup();
  const failure = new Error("first");
  let ended = false;
  group.run("slow", async (signal) => {
    await untilAborted(signal);
    await sleep(1);
    ended = true;
  });
  group.run("failing", () => Promise.reject(failure));
  await assert.rejects(group.wait(), failure);
  assert.ok(ended);
});

Deno.test("TaskGroup.run() does not throw what the task throws at once", async () => {
  const group = new TaskGroup();
  const failure = new TypeError("at once");
  group.run("throwing", () => {
    throw failure;
  });
  await assert.rejects(group.wait(), failure);
});

Deno.test("TaskGroup.wait() leaves the others running when one ends well", async () => {
  const group = new TaskGroup();
  group.run("short", () => Promise.resolve());
  group.run("long", () => sleep(2));
  await group.wait();
  assert.equal(group.signal.aborted, false);
});

Deno.test("TaskGroup forgets ended tasks while others run", async () => {
  await using group = new TaskGroup();
  group.run("forever", untilAborted);
  for (let i = 0; i < 10; i++) group.run("short", () => Promise.resolve());
  await sleep(1);
  assert.deepEqual(group.running, ["forever"]);
});

Deno.test("TaskGroup.wait() also waits for tasks started by tasks", async () => {
  const group = new TaskGroup();
  let done = false;
  group.run("outer", () => {
    group.run("inner", async () => {
      await sleep(1);
      done = true;
    });
    return Promise.resolve();
  });
  await group.wait();
  assert.ok(done);
});

Deno.test("TaskGroup takes an abort from outside as a clean end", async () => {
  const controller = new AbortController();
  const group = new TaskGroup({ signal: controller.signal });
  group.run("sleeper", (signal) => sleep(60_000, { signal }));
  controller.abort();
  await group.wait();
  let started = false;
  group.run("late", () => {
    started = true;
    return Promise.resolve();
  });
  await group.wait();
  assert.equal(started, false);
});

Deno.test("TaskGroup disposal aborts and waits", async () => {
  let ended = false;
  {
    await using group = new TaskGroup();
    group.run("task", async (signal) => {
      await untilAborted(signal);
      await sleep(1);
      ended = true;
    });
    await sleep(1);
  }
  assert.ok(ended);
});

Deno.test("TaskGroup follows the outer signal also after a wait", async () => {
  const controller = new AbortController();
  const group = new TaskGroup({ signal: controller.signal });
  group.run("first", () => Promise.resolve());
  await group.wait();
  group.run("second", untilAborted);
  controller.abort();
  await group.wait();
});
