import assert from "node:assert/strict";
import { DEFAULT_WATER_MARKS, wantedOf, waterStock } from "./stock.ts";

const stock = waterStock(DEFAULT_WATER_MARKS);
const room = {
  pool: "default",
  blockSize: 8,
  free: 0,
  held: 0,
  waiting: 0,
};

Deno.test("waterStock() lacks what is missing up to the low mark, of a pool in use that has a block", () => {
  assert.equal(stock.short({ ...room, held: 7, free: 1 }), 1);
  assert.equal(stock.short({ ...room, waiting: 1 }), 2);
  assert.equal(stock.short(room), 0);
  const fixed = waterStock({ low: () => 5, high: () => 10 });
  assert.equal(fixed.short({ ...room, waiting: 1 }), 5);
  assert.equal(fixed.short({ ...room, blockSize: 0, waiting: 1 }), 0);
});

Deno.test("the marks are a quarter of a block, sixteen at most, and twice that; none of blocks of fewer than four", () => {
  const { low, high } = DEFAULT_WATER_MARKS;
  const sizes = [1, 3, 4, 8, 64, 256];
  assert.deepEqual(sizes.map(low), [0, 0, 1, 2, 16, 16]);
  assert.deepEqual(sizes.map(high), [0, 0, 2, 4, 32, 32]);
});

Deno.test("isSpare() keeps the high mark of a pool in use, and nothing of others", () => {
  const block = { size: 8, freeCount: 8 } as Parameters<
    typeof stock.isSpare
  >[0];
  const isSpare = (free: number, held: number) =>
    stock.isSpare(block, { ...room, free, held });
  assert.equal(isSpare(12, 1), true);
  assert.equal(isSpare(11, 1), false);
  assert.equal(isSpare(8, 0), true);
});

Deno.test("wantedOf() adds those that wait to the store, and is one at least", () => {
  assert.equal(wantedOf({ ...room, waiting: 5 }, stock), 7);
  assert.equal(wantedOf({ ...room, blockSize: 1, waiting: 5 }, stock), 5);
  assert.equal(wantedOf({ ...room, free: 100, held: 1 }, stock), 1);
});
