import assert from "node:assert/strict";
import fc from "fast-check";
import { KeyedMutex, Mutex } from "../mod.ts";

/** Lets everything that can go on do so. */
function settle(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, 0));
}

Deno.test("Mutex.lock() admits one at a time, in order", async () => {
  const mutex = new Mutex();
  const order: string[] = [];
  async function enter(name: string): Promise<void> {
    using _lock = await mutex.lock();
    order.push(`${name} in`);
    await settle();
    order.push(`${name} out`);
  }
  await Promise.all(["a", "b", "c"].map(enter));
  assert.deepEqual(order, ["a in", "a out", "b in", "b out", "c in", "c out"]);
  assert.equal(mutex.isLocked, false);
});

Deno.test("Mutex.tryLock() takes the lock only when it is free", async () => {
  const mutex = new Mutex();
  const first = mutex.tryLock();
  assert.ok(first);
  assert.equal(mutex.tryLock(), undefined);
  const second = mutex.lock();
  first[Symbol.dispose]();
  first[Symbol.dispose]();
  assert.equal(mutex.tryLock(), undefined, "the second waits for it");
  (await second)[Symbol.dispose]();
  using third = mutex.tryLock();
  assert.ok(third);
  assert.equal(mutex.isLocked, true);
});

Deno.test("Mutex.lock() aborted while waiting does not hold up those behind", async () => {
  const mutex = new Mutex();
  const first = await mutex.lock();
  const controller = new AbortController();
  const second = mutex.lock({ signal: controller.signal });
  let thirdIn = false;
  const third = mutex.lock().then((lock) => {
    thirdIn = true;
    return lock;
  });
  controller.abort();
  await assert.rejects(second, { name: "AbortError" });
  await settle();
  assert.equal(thirdIn, false, "the first still holds it");
  first[Symbol.dispose]();
  (await third)[Symbol.dispose]();
  assert.equal(mutex.isLocked, false);
});

Deno.test("Mutex lock disposed twice does not release the next holder", async () => {
  const mutex = new Mutex();
  const first = await mutex.lock();
  const second = mutex.lock();
  first[Symbol.dispose]();
  first[Symbol.dispose]();
  using _second = await second;
  let thirdIn = false;
  const third = mutex.lock().then((lock) => {
    thirdIn = true;
    return lock;
  });
  await settle();
  assert.equal(thirdIn, false);
  _second[Symbol.dispose]();
  (await third)[Symbol.dispose]();
});

Deno.test("KeyedMutex.lock() does not hold up other keys, and forgets unused ones", async () => {
  const mutex = new KeyedMutex();
  const a = await mutex.lock("a");
  const b = await mutex.lock("b");
  assert.equal(mutex.size, 2);
  assert.ok(mutex.isLocked("a"));
  a[Symbol.dispose]();
  assert.ok(!mutex.isLocked("a"));
  b[Symbol.dispose]();
  assert.equal(mutex.size, 0);
});

Deno.test("KeyedMutex.lock() given up while waiting leaves nothing behind", async () => {
  const mutex = new KeyedMutex();
  const signal = AbortSignal.abort();
  await assert.rejects(mutex.lock("a", { signal }));
  assert.equal(mutex.size, 0);
  const holder = await mutex.lock("a");
  await assert.rejects(mutex.lock("a", { signal }));
  assert.ok(mutex.isLocked("a"));
  holder[Symbol.dispose]();
  assert.equal(mutex.size, 0);
});

Deno.test("KeyedMutex never lets two in, in any schedule", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.scheduler(),
      fc.array(fc.tuple(fc.constantFrom("a", "b"), fc.boolean()), {
        maxLength: 12,
      }),
      async (scheduler, visits) => {
        const mutex = new KeyedMutex();
        const inside = new Map<string, number>();
        const all = visits.map(async ([key, givesUp]) => {
          const controller = new AbortController();
          if (givesUp) {
            scheduler.schedule(Promise.resolve()).then(() =>
              controller.abort()
            );
          }
          try {
            using _lock = await mutex.lock(key, { signal: controller.signal });
            inside.set(key, (inside.get(key) ?? 0) + 1);
            assert.equal(inside.get(key), 1);
            await scheduler.schedule(Promise.resolve());
            inside.set(key, 0);
          } catch (error) {
            if (!controller.signal.aborted) throw error;
          }
        });
        await scheduler.waitFor(Promise.all(all));
        assert.equal(mutex.size, 0);
      },
    ),
    { numRuns: 50 },
  );
});

Deno.test("KeyedMutex.isLocked() does not count upkeep, which others wait for all the same", async () => {
  const mutex = new KeyedMutex();
  const upkeep = await mutex.lock("a", { upkeep: true });
  assert.equal(mutex.isLocked("a"), false);
  assert.equal(mutex.size, 1);
  let isIn = false;
  const waiting = mutex.lock("a").then((lock) => {
    isIn = true;
    return lock;
  });
  assert.equal(mutex.isLocked("a"), true);
  await settle();
  assert.equal(isIn, false);
  upkeep[Symbol.dispose]();
  upkeep[Symbol.dispose]();
  const lock = await waiting;
  assert.equal(mutex.isLocked("a"), true);
  lock[Symbol.dispose]();
  lock[Symbol.dispose]();
  assert.equal(mutex.isLocked("a"), false);
  assert.equal(mutex.size, 0);
});
