import assert from "node:assert/strict";
import fc from "fast-check";
import { PoolIndex } from "./index.ts";

Deno.test("lowestFree() is the first gap", () => {
  const index = new PoolIndex([0, 1, 3]);
  assert.equal(index.size, 3);
  assert.equal(index.lowestFree(10), 2);
  index.add(2);
  assert.equal(index.lowestFree(10), 4);
  assert.equal(index.lowestFree(4), undefined);
  index.delete(1);
  assert.equal(index.lowestFree(4), 1);
});

Deno.test("add() and delete() are idempotent and tell what they did", () => {
  const index = new PoolIndex();
  assert.deepEqual([index.add(7), index.add(7)], [true, false]);
  assert.deepEqual([index.delete(7), index.delete(7)], [true, false]);
  assert.equal(index.size, 0);
});

Deno.test("big-pool (spider#3541): positions up to 2^31-1 work at once", () => {
  const last = 2 ** 31 - 1;
  const index = new PoolIndex([last]);
  assert.equal(index.has(last), true);
  assert.equal(index.lowestFree(2 ** 31), 0);
  assert.throws(() => index.add(2 ** 31), RangeError);
  assert.throws(() => index.add(-1), RangeError);
  assert.throws(() => index.add(0.5), RangeError);
});

Deno.test("lowestFree() crosses words that are full", () => {
  const index = new PoolIndex();
  const count = 32 * 32 * 32 + 5;
  for (let i = 0; i < count; i++) index.add(i);
  assert.equal(index.lowestFree(2 ** 31), count);
  index.delete(32 * 32 - 1);
  assert.equal(index.lowestFree(2 ** 31), 32 * 32 - 1);
});

Deno.test("a PoolIndex follows a set of numbers", () => {
  const position = fc.oneof(
    fc.integer({ min: 0, max: 70 }),
    fc.integer({ min: 0, max: 2000 }),
    fc.integer({ min: 2 ** 31 - 40, max: 2 ** 31 - 1 }),
  );
  const action = fc.oneof(
    fc.record({ kind: fc.constant("take"), position }),
    fc.record({ kind: fc.constant("add"), position }),
    fc.record({ kind: fc.constant("delete"), position }),
  );
  fc.assert(fc.property(fc.array(action, { maxLength: 300 }), (actions) => {
    const index = new PoolIndex();
    const model = new Set<number>();
    for (const { kind, position } of actions) {
      let free = 0;
      while (model.has(free)) free++;
      assert.equal(index.lowestFree(2 ** 31), free);
      const target = kind === "take" ? free : position;
      if (kind === "delete") {
        assert.equal(index.delete(target), model.delete(target));
      } else {
        assert.equal(index.add(target), !model.has(target));
        model.add(target);
      }
      assert.equal(index.has(target), model.has(target));
      assert.equal(index.size, model.size);
    }
  }));
});

Deno.test("ranges of a PoolIndex follow a set of numbers", () => {
  const position = fc.oneof(
    fc.integer({ min: 0, max: 130 }),
    fc.integer({ min: 1000, max: 1200 }),
    fc.integer({ min: 2 ** 31 - 40, max: 2 ** 31 - 1 }),
  );
  const used = fc.uniqueArray(position, { maxLength: 150 });
  fc.assert(fc.property(used, position, position, (numbers, a, b) => {
    const index = new PoolIndex(numbers);
    const [first, last] = a < b ? [a, b] : [b, a];
    assert.equal(
      index.hasAny(first, last),
      numbers.some((n) => n >= first && n <= last),
    );
    let free = a;
    while (numbers.includes(free)) free++;
    assert.equal(
      index.lowestFree(2 ** 31, a),
      free < 2 ** 31 ? free : undefined,
    );
    assert.deepEqual(
      [...index.values()].toSorted((x, y) => x - y),
      numbers.toSorted((x, y) => x - y),
    );
  }));
});
