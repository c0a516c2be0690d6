import assert from "node:assert/strict";
import { jittered } from "./jittered.ts";

Deno.test("jittered() spreads a time from half to one and a half of it", () => {
  assert.deepEqual(
    [0, 0.25, 0.5, 0.75, 1].map((n) => jittered(1000, () => n)),
    [500, 750, 1000, 1250, 1500],
  );
});

Deno.test("jittered() gives another time at each call", () => {
  const times = new Set(Array.from({ length: 20 }, () => jittered(1000)));
  assert.ok(times.size > 1);
});
