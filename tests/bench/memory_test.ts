import assert from "node:assert/strict";
import { figure } from "./figures.ts";
import { overLimit } from "./memory.ts";
import { peakOf, resetPeak } from "./process_memory.ts";

Deno.test("overLimit() tells which figures are more than they may be", () => {
  const figures = [
    figure("rss.coild.blocks22", "MiB", [75]),
    figure("rss.controller.blocks22", "MiB", [75.01]),
    figure("rss.coild.start", "MiB", [1_000]),
  ];
  assert.deepEqual(overLimit(figures), [
    "rss.controller.blocks22 is 75.01 MiB, more than 75",
  ]);
});

Deno.test("peakOf() tells the most that a process held since resetPeak()", () => {
  resetPeak(Deno.pid);
  const before = peakOf(Deno.pid);
  let ballast: Uint8Array | undefined = new Uint8Array(256 * 2 ** 20).fill(1);
  assert.equal(ballast[1], 1);
  ballast = undefined;
  // Other tests run in this process, and give back what they held.
  assert.ok(peakOf(Deno.pid) >= before + 64);
});
