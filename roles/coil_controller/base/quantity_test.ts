import assert from "node:assert/strict";
import { isAtLeast, parseQuantity } from "./quantity.ts";

Deno.test("parseQuantity() reads what Kubernetes takes", () => {
  const cases: readonly (readonly [string, number | undefined])[] = [
    ["200Mi", 200 * 2 ** 20],
    ["1Gi", 2 ** 30],
    ["100m", 0.1],
    ["0.5", 0.5],
    [".5", 0.5],
    ["1.", 1],
    ["2e3", 2000],
    ["2E3", 2000],
    ["1E", 1e18],
    ["1e-3", 0.001],
    ["+1k", 1000],
    ["128974848", 128974848],
    ["", undefined],
    ["Mi", undefined],
    ["1 Gi", undefined],
    ["1KB", undefined],
    ["0x10", undefined],
  ];
  for (const [text, value] of cases) {
    assert.equal(parseQuantity(text), value, text);
  }
});

Deno.test("isAtLeast() compares quantities with any suffixes", () => {
  assert.ok(isAtLeast("1Gi", "200Mi"));
  assert.ok(isAtLeast("200Mi", "200Mi"));
  assert.ok(!isAtLeast("200M", "200Mi"));
  assert.ok(isAtLeast("1", "100m"));
  assert.ok(!isAtLeast("50m", "100m"));
  assert.ok(!isAtLeast("much", "100m"));
});
