import assert from "node:assert/strict";
import { atRest, eventually, sleep } from "./wait.ts";

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

Deno.test("atRest() takes what no longer changes, however often it was read before", async () => {
  const values = [1, 1, 2, 2, 2, 1, 3];
  let looks = 0;
  const read = () => values[looks++] ?? 4;
  assert.equal(await atRest("a value", read, { restMs: 1 }), 4);
  // The last change, and as often again as it takes to trust it.
  assert.ok(looks >= values.length + 10, `${looks} looks`);
  const rest = { restMs: 700 };
  const startMs = performance.now();
  assert.equal(await atRest("a text", () => "same", rest), "same");
  assert.ok(performance.now() - startMs >= rest.restMs);
});
