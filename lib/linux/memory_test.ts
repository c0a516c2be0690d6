import assert from "node:assert/strict";
import { openLibc } from "./libc.ts";
import { heapCollector, trimHeap } from "./memory.ts";

openLibc();

Deno.test("trimHeap() answers whether there was something to give back", () => {
  assert.equal(typeof trimHeap(), "boolean");
  // Called twice in a row, the second time finds nothing new and does no harm.
  trimHeap();
});

Deno.test("heapCollector() collects what nobody refers to", () => {
  const collect = heapCollector();
  const heapBefore = Deno.memoryUsage().heapUsed;
  let ballast: number[][] | undefined = Array.from(
    { length: 2000 },
    () => Array.from({ length: 500 }, Math.random),
  );
  assert.ok(ballast.length > 0);
  ballast = undefined;
  collect();
  assert.ok(Deno.memoryUsage().heapUsed < heapBefore + 4_000_000);
});
