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

Deno.test("wantedOf() adds those that wait to the store, and is one at least", () => {
  assert.equal(wantedOf({ ...room, waiting: 5 }, stock), 7);
  assert.equal(wantedOf({ ...room, blockSize: 1, waiting: 5 }, stock), 5);
  assert.equal(wantedOf({ ...room, free: 100, held: 1 }, stock), 1);
});
