import assert from "node:assert/strict";
import { figure } from "./figures.ts";

Deno.test("figure() takes quantiles by the nearest rank", () => {
  const samples = Array.from({ length: 100 }, (_, i) => 100 - i);
  const { p50, p90, p99, max, n } = figure("x", "ms", samples);
  assert.deepEqual([p50, p90, p99, max, n], [50, 90, 99, 100, 100]);
});

Deno.test("figure() of one sample is that sample", () => {
  assert.equal(figure("x", "ms", [3.14159]).p99, 3.14);
});

Deno.test("figure() refuses to summarise nothing", () => {
  assert.throws(() => figure("x", "ms", []), RangeError);
});
