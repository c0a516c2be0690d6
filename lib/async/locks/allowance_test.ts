import assert from "node:assert/strict";
import { Allowance, Allowances } from "./allowance.ts";
import { BoundedMap } from "./bounded_map.ts";

const RATE = { burst: 2, perSecond: 10 };

function clock() {
  let nowMs = 1_000;
  return { nowMs: () => nowMs, pass: (ms: number) => nowMs += ms };
}

Deno.test("Allowance gives a burst, then as much as comes in, and refusing costs nothing", () => {
  const { nowMs, pass } = clock();
  const allowance = new Allowance(RATE, { nowMs });
  const take = () => allowance.take();
  assert.deepEqual([take(), take(), take()], [true, true, false]);
  for (let n = 0; n < 9; n++) {
    pass(10);
    assert.equal(take(), false);
  }
  pass(10);
  assert.deepEqual([take(), take()], [true, false]);
  pass(60_000);
  assert.deepEqual([take(), take(), take()], [true, true, false]);
});

Deno.test("Allowance lets one be owed, and says until when", () => {
  const { nowMs, pass } = clock();
  const allowance = new Allowance(RATE, { nowMs });
  const take = () => allowance.takeOrOwe();
  assert.deepEqual([take(), take(), take(), take()], [0, 0, 100, 100]);
  pass(200);
  assert.equal(take(), 0);
});

Deno.test("Allowances slow each peer down by itself, and not for longer than it was too fast", () => {
  let nowMs = 0;
  const rates = new Allowances({ burst: 20, perSecond: 10 }, {
    nowMs: () => nowMs,
    max: 10,
  });
  const take = (count: number) =>
    Array.from({ length: count }, () => rates.of("a").takeOrOwe())
      .filter((ms) => ms > 0);
  assert.deepEqual(take(20), []);
  assert.equal(take(1_000).length, 1_000);
  assert.equal(rates.of("b").takeOrOwe(), 0);
  nowMs = 250;
  assert.deepEqual(take(2).length, 1);
  nowMs = 10_000;
  assert.deepEqual(take(20), []);
});

Deno.test("Allowances give each its own, and forget who took least recently", () => {
  const { nowMs } = clock();
  const allowances = new Allowances(RATE, { nowMs, max: 2 });
  const takeAll = (key: string) => {
    const allowance = allowances.of(key);
    return [allowance.take(), allowance.take(), allowance.take()];
  };
  assert.deepEqual(takeAll("a"), [true, true, false]);
  assert.deepEqual(takeAll("b"), [true, true, false]);
  assert.deepEqual(takeAll("a"), [false, false, false]);
  assert.deepEqual(takeAll("c"), [true, true, false]);
  assert.deepEqual(takeAll("a"), [false, false, false]);
  assert.deepEqual(takeAll("b"), [true, true, false], "it was forgotten");
});

Deno.test("BoundedMap forgets what was set least recently", () => {
  const map = new BoundedMap<string, number>(2);
  map.set("a", 1);
  map.set("b", 2);
  map.set("a", 3);
  map.set("c", 4);
  assert.deepEqual(["a", "b", "c"].map((key) => map.get(key)), [
    3,
    undefined,
    4,
  ]);
  map.delete("a");
  assert.equal(map.size, 1);
});
