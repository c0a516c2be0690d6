import assert from "node:assert/strict";
import { FairShare } from "./fair_share.ts";

Deno.test("FairShare lets a connection work at once, and then a fifth of the time", () => {
  let nowMs = 0;
  const share = new FairShare(() => nowMs);
  const work = (ms: number) => {
    share.measure(() => nowMs += ms);
    return share.pauseMs;
  };
  assert.equal(work(90), 0);
  let workedMs = 0;
  const sinceMs = nowMs;
  while (nowMs < sinceMs + 100_000) {
    nowMs += work(10);
    workedMs += 10;
  }
  const part = workedMs / (nowMs - sinceMs);
  assert.ok(part > 0.19 && part < 0.21, `${part}`);
});

Deno.test("FairShare takes other bounds", () => {
  const share = new FairShare(() => 0, { share: 0.5, burstMs: 1 });
  for (let n = 0; n < 8; n++) share.addCall();
  assert.equal(share.pauseMs, 2);
});

Deno.test("FairShare counts calls, whose work comes later", () => {
  const share = new FairShare(() => 0);
  for (let n = 0; n < 400; n++) share.addCall();
  assert.equal(share.pauseMs, 0);
  for (let n = 0; n < 4; n++) share.addCall();
  assert.equal(share.pauseMs, 5);
});

Deno.test("FairShare does not let a quiet connection save up", () => {
  let nowMs = 0;
  const share = new FairShare(() => nowMs);
  nowMs = 1e9;
  share.measure(() => nowMs += 200);
  assert.ok(share.pauseMs > 0);
});
