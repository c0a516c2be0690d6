import assert from "node:assert/strict";
import { sampleOf, spread } from "./sample.ts";

const ALL = Array.from({ length: 100 }, (_, index) => index);

Deno.test("sampleOf() takes one of each share, and others with another seed", () => {
  const [first, second, third] = [0, 1, 2].map((seed) =>
    sampleOf(ALL, { size: 8, seed })
  );
  assert.ok(first && second && third);
  const shares = [0, 13, 25, 38, 50, 63, 75, 88];
  assert.deepEqual(first, shares);
  for (const other of [second, third]) {
    assert.equal(other.length, 8);
    assert.ok(other.every((one, share) => one > (shares[share] ?? 100)));
    assert.ok(
      other.every((one, share) => one < (shares[share + 1] ?? 100)),
    );
  }
  assert.equal(new Set([...first, ...second, ...third]).size, 24);
});

Deno.test("sampleOf() takes all when there are no more than wanted", () => {
  for (const size of [100, 500, Infinity]) {
    assert.deepEqual(sampleOf(ALL, { size, seed: 3 }), ALL);
  }
  assert.deepEqual(sampleOf([], { size: 5, seed: 1 }), []);
});

Deno.test("spread() has each part of all among the first of them", () => {
  const order = spread(ALL);
  assert.deepEqual(order.toSorted((a, b) => a - b), ALL);
  for (const size of [20, 30, 55]) {
    const tenths = new Set(order.slice(0, size).map((n) => Math.floor(n / 10)));
    assert.equal(tenths.size, 10, `${size}`);
  }
});
