import assert from "node:assert/strict";
import { LinkIndexes } from "./link_indexes.ts";

/** The highest index that the kernel takes. */
const INT_MAX = 2 ** 31 - 1;

function indexes(fill: number, taken: readonly number[] = []): LinkIndexes {
  return new LinkIndexes({
    random: (bytes) => bytes.fill(fill),
    isTaken: (index) => taken.includes(index),
  });
}

Deno.test("LinkIndexes begins above what the kernel chooses, and leaves room above", () => {
  const low = indexes(0).next();
  const high = indexes(0xff).next();
  assert.ok(low > 2 ** 30);
  assert.ok(high - low > 2 ** 28, "where it begins is random");
  assert.ok(high < INT_MAX - 2 ** 28);
});

Deno.test("LinkIndexes.next() gives each index once, and none that a pod has", () => {
  const first = indexes(0).next();
  const some = indexes(0, [first, first + 2]);
  assert.deepEqual([some.next(), some.next()], [first + 1, first + 3]);
});
