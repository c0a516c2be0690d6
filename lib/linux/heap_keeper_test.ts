import assert from "node:assert/strict";
import { HeapKeeper, openLibc } from "./mod.ts";

// Opened once for the process; inside a test it would count as a leak.
openLibc();

Deno.test("HeapKeeper.look() collects after many changes, and once more when all is quiet", () => {
  let collections = 0;
  const keeper = new HeapKeeper({ collect: () => collections++ });
  const look = (changes: number) => {
    for (let i = 0; i < changes; i++) keeper.note();
    keeper.look();
    return collections;
  };
  assert.deepEqual([0, 499, 1, 0, 0, 0].map(look), [0, 0, 1, 2, 2, 2]);
  assert.deepEqual([500, 3, 0, 0, 600, 0, 7, 0].map(look), [
    3,
    3,
    4,
    4,
    5,
    6,
    6,
    6,
  ]);
});

Deno.test("HeapKeeper.note() does not wait for the next look within a long list", () => {
  let collections = 0;
  const keeper = new HeapKeeper({ collect: () => collections++ });
  for (let i = 0; i < 50_000; i++) keeper.note();
  assert.equal(collections, 10);
});

Deno.test("HeapKeeper's own collector gives memory back", () => {
  const keeper = new HeapKeeper();
  let garbage: unknown[] | undefined = [];
  for (let i = 0; i < 200_000; i++) garbage.push({ i });
  const beforeBytes = Deno.memoryUsage().heapUsed;
  garbage = undefined;
  for (let i = 0; i < 500; i++) keeper.note();
  keeper.look();
  assert.ok(
    Deno.memoryUsage().heapUsed < beforeBytes - 4e6,
    "nothing was collected",
  );
});
