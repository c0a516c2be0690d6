import assert from "node:assert/strict";
import { FakeClock } from "../../async/testing.ts";
import { WorkQueue } from "./work_queue.ts";

const signal = new AbortController().signal;

function queueWithClock() {
  const clock = new FakeClock();
  const queue = new WorkQueue({ clock, random: () => 0 });
  return { clock, queue };
}

Deno.test("WorkQueue gives a key that was added twice once", async () => {
  const { queue } = queueWithClock();
  queue.add("a");
  queue.add("a");
  queue.add("b");
  assert.equal(queue.size, 2);
  assert.equal(await queue.next({ signal }), "a");
  assert.equal(await queue.next({ signal }), "b");
});

Deno.test("WorkQueue holds a key back while it is worked on, and then gives it again", async () => {
  const { queue } = queueWithClock();
  queue.add("a");
  await queue.next({ signal });
  queue.add("a");
  queue.add("a");
  let second: string | undefined;
  const waiting = queue.next({ signal }).then((key) => second = key);
  await Promise.resolve();
  assert.equal(second, undefined);
  queue.done("a");
  await waiting;
  assert.equal(second, "a");
  queue.done("a");
  assert.equal(queue.size, 0);
});

Deno.test("WorkQueue hands a key to one of those who wait", async () => {
  const { queue } = queueWithClock();
  const got: string[] = [];
  const waiting = [0, 1].map(async () =>
    got.push(await queue.next({ signal }))
  );
  queue.add("a");
  queue.add("a");
  await waiting[0];
  assert.deepEqual(got, ["a"]);
  queue.add("b");
  await waiting[1];
  assert.deepEqual(got, ["a", "b"]);
});

Deno.test("addAfter() adds when the time has come, and the earliest counts", async () => {
  const { queue, clock } = queueWithClock();
  queue.addAfter("a", 100);
  queue.addAfter("a", 50);
  queue.addAfter("a", 80);
  assert.equal(clock.pending, 1);
  await clock.advance(49);
  assert.equal(queue.size, 0);
  await clock.advance(1);
  assert.equal(queue.size, 1);
  await clock.advance(100);
  assert.equal(queue.size, 1);
});

Deno.test("retry() waits longer each time, up to a limit, until forget()", () => {
  const { queue } = queueWithClock();
  const delays = Array.from({ length: 13 }, () => queue.retry("a"));
  assert.deepEqual(delays.slice(0, 4), [50, 100, 200, 400]);
  assert.equal(delays.at(-1), 60_000);
  assert.equal(queue.retry("b"), 50);
  queue.forget("a");
  assert.equal(queue.retry("a"), 50);
});

Deno.test("next() ends with its signal and loses no key", async () => {
  const { queue } = queueWithClock();
  const controller = new AbortController();
  const aborted = queue.next({ signal: controller.signal });
  controller.abort(new Error("enough"));
  await assert.rejects(aborted, /enough/);
  queue.add("a");
  assert.equal(await queue.next({ signal }), "a");
  // Handed over and aborted in the same turn: the key is the caller's.
  const late = new AbortController();
  const handed = queue.next({ signal: late.signal });
  queue.add("b");
  late.abort();
  assert.equal(await handed, "b");
});
