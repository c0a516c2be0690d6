import assert from "node:assert/strict";
import { DEFAULT_WATER_MARKS } from "../../../lib/ipam/mod.ts";
import { waterMarksFor } from "./water_marks.ts";

Deno.test("waterMarksFor() keeps one block more than asked for before it returns any, and none for 0", () => {
  const marks = (lowWater: number) => {
    const { low, high } = waterMarksFor(lowWater);
    return [low(32), high(32)];
  };
  assert.deepEqual(marks(5), [5, 37]);
  assert.deepEqual(marks(0), [0, 0]);
  assert.equal(waterMarksFor(-1), DEFAULT_WATER_MARKS);
});
