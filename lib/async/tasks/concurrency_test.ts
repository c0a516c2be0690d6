import assert from "node:assert/strict";
import { forEachConcurrently } from "./concurrency.ts";

Deno.test("forEachConcurrently() visits each item once, never more than the limit at a time", async () => {
  const seen: number[] = [];
  let inside = 0;
  let most = 0;
  await forEachConcurrently([...Array(50).keys()], 4, async (item) => {
    most = Math.max(most, ++inside);
    await Promise.resolve();
    seen.push(item);
    inside--;
  });
  assert.equal(most, 4);
  assert.deepEqual(seen.toSorted((a, b) => a - b), [...Array(50).keys()]);
});

Deno.test("forEachConcurrently() stops at the first failure and rethrows it", async () => {
  const failure = new Error("no");
  let calls = 0;
  const visiting = forEachConcurrently([...Array(50).keys()], 2, () => {
    calls++;
    return calls === 3 ? Promise.reject(failure) : Promise.resolve();
  });
  await assert.rejects(visiting, failure);
  assert.ok(calls < 10, `${calls}`);
});

Deno.test("forEachConcurrently() of nothing ends", async () => {
  await forEachConcurrently(
    [],
    4,
    () => Promise.reject(new Error("unreachable")),
  );
});
