import assert from "node:assert/strict";
import { parseInteger } from "./integer.ts";

// What Go 1.25's strconv.ParseInt(text, 0, 64) answers.
for (
  const [text, value] of [
    ["0", 0],
    ["-0", 0],
    ["42", 42],
    ["+42", 42],
    ["-42", -42],
    ["1_000", 1000],
    ["0x7d0", 2000],
    ["0X7D0", 2000],
    ["-0x10", -16],
    ["0x_1f", 31],
    ["0b101", 5],
    ["0B1_0", 2],
    ["0o17", 15],
    ["0O17", 15],
    ["017", 15],
    ["0_17", 15],
    ["00", 0],
    ["9007199254740991", Number.MAX_SAFE_INTEGER],
  ] as const
) {
  Deno.test(`parseInteger() reads "${text}" as Go does`, () => {
    assert.equal(parseInteger(text), value);
    assert.ok(!Object.is(parseInteger(text), -0));
  });
}

for (
  const text of [
    ...["", "+", "-", "_1", "1_", "1__0", "0x", "0x_", "0x1_", "0_", "_0x1"],
    ...["08", "019", "0b2", "0o8", "0xg", "x10", "1e3", "1.0", " 1", "1 "],
    ...["--1", "+-1", "0x-1", "ff", "1n", "٣"],
  ]
) {
  Deno.test(`parseInteger() refuses "${text}" as Go does`, () => {
    assert.equal(parseInteger(text), undefined);
  });
}
