import assert from "node:assert/strict";
import { eventually, sleep } from "./wait.ts";

Deno.test("eventually() leaves twice the time of a probe between two of them", async () => {
  for (const [tookMs, pauseMs] of [[40, 80], [300, 500]] as const) {
    const gaps: number[] = [];
    let ended: number | undefined;
    await eventually("the second probe", async () => {
      if (ended !== undefined) gaps.push(performance.now() - ended);
      await sleep(tookMs);
      ended = performance.now();
      return gaps.length > 0;
    });
    const [gap = 0] = gaps;
    // A timer may be a fraction of a millisecond early.
    assert.ok(gap > pauseMs - 2, `${gap} ms after a probe of ${tookMs} ms`);
  }
});
