import assert from "node:assert/strict";
import { settled } from "./settled.ts";

Deno.test("settled() gives the values in order, of what is no promise, too", async () => {
  const later = Promise.withResolvers<number>();
  const all = settled([later.promise, "b", Promise.resolve(undefined)]);
  later.resolve(1);
  assert.deepEqual(await all, [1, "b", undefined]);
});

Deno.test("settled() throws the first failure of the list once all have ended", async () => {
  const first = Promise.withResolvers<number>();
  const second = Promise.withResolvers<number>();
  const third = Promise.withResolvers<number>();
  let hasEnded = false;
  const all = settled([first.promise, second.promise, third.promise])
    .finally(() => hasEnded = true);
  const refused = assert.rejects(all, { message: "second" });
  third.reject(new Error("third"));
  second.reject(new Error("second"));
  await Promise.allSettled([second.promise, third.promise]);
  // As often as the promises of settled() itself would need.
  for (let i = 0; i < 10; i++) await Promise.resolve();
  assert.equal(hasEnded, false);
  first.resolve(1);
  await refused;
});
