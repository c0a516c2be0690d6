import assert from "node:assert/strict";
import fc from "fast-check";
import { formatDuration, parseDurationMs } from "./mod.ts";

for (
  const [text, ms] of [
    ["0", 0],
    ["0s", 0],
    ["10s", 10_000],
    ["1h0m0s", 3_600_000],
    ["5m", 300_000],
    ["5m0s", 300_000],
    ["300ms", 300],
    ["1.5h", 5_400_000],
    ["-2s", -2000],
    ["+2s", 2000],
    [".5s", 500],
    ["1us", 0.001],
    ["1µs", 0.001],
    ["1m1ms", 60_001],
    ["8760h", 31_536_000_000],
  ] as const
) {
  Deno.test(`parseDurationMs() reads "${text}"`, () => {
    assert.equal(parseDurationMs(text), ms);
  });
}

for (
  const text of [
    "",
    "10",
    "s",
    "10 s",
    "1d",
    "1h30",
    "--1s",
    "1s ",
    "1e3s",
    "0x1s",
    "-",
    ".s",
    "2562048h",
    "9".repeat(12) + "h",
  ]
) {
  Deno.test(`parseDurationMs() refuses "${text}"`, () => {
    assert.throws(() => parseDurationMs(text), SyntaxError);
  });
}

for (
  const [ms, text] of [
    [0, "0s"],
    [250, "250ms"],
    [10_000, "10s"],
    [300_000, "5m0s"],
    [3_600_000, "1h0m0s"],
    [1500, "1.5s"],
    [-60_000, "-1m0s"],
  ] as const
) {
  Deno.test(`formatDuration() prints "${text}"`, () =>
    assert.equal(formatDuration(ms), text));
}

Deno.test("formatDuration() prints what parseDurationMs() reads back", () => {
  fc.assert(fc.property(fc.integer(), (ms) => {
    assert.ok(
      Math.abs(parseDurationMs(formatDuration(ms)) - ms) < 1e-3,
      formatDuration(ms),
    );
  }));
});
