import assert from "node:assert/strict";
import { figure } from "./figures.ts";
import { overLimit } from "./memory.ts";
import { peakOf, resetPeak } from "./process_memory.ts";

Deno.test("overLimit() tells which figures are more than they may be", () => {
  const bounds = [
    ["rss.coild.blocks22", 75],
    ["rss.controller.start", 75],
    ["rss.controller.blocks22", 75],
    ["rss.controller.requests1000.peak", 110],
    ["rss.controller.requests1000", 75],
  ] as const;
  for (const [name, limit] of bounds) {
    assert.deepEqual(overLimit([figure(name, "MiB", [limit])]), []);
    const [problem] = overLimit([figure(name, "MiB", [limit + 0.01])]);
    assert.equal(problem, `${name} is ${limit}.01 MiB, more than ${limit}`);
  }
  const free = figure("rss.coild.start", "MiB", [1_000]);
  assert.deepEqual(overLimit([free]), []);
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
