import assert from "node:assert/strict";
import { Address } from "../../inet/mod.ts";
import type { ProbeLine } from "./probe_line.ts";
import { ProbedGateway } from "./probed_gateway.ts";

Deno.test("ProbedGateway tries another socket when none has been answered for 5 s, and again after as long", () => {
  let reopened = 0;
  let isAnswered = true;
  const line = {
    send() {},
    takeAnswers: () => isAnswered,
    reopen: () => void reopened++,
  } as Partial<ProbeLine> as ProbeLine; // all that is used
  const gateway = new ProbedGateway(Address.parse("10.0.0.1"), line, 0);
  const times = { answerMs: 100, doubtMs: 50 };
  /** A probe that is missed; how often another socket was tried. */
  const missedAt = (nowMs: number) => {
    reopened = 0;
    gateway.send(nowMs, times);
    gateway.miss(nowMs, { counts: true });
    return reopened;
  };
  assert.deepEqual([4_999, 5_000, 9_999, 10_000].map(missedAt), [0, 1, 0, 1]);
  gateway.send(11_000, times);
  gateway.takeAnswer(11_001);
  isAnswered = false;
  assert.deepEqual([15_000, 15_999, 16_000].map(missedAt), [0, 0, 1]);
});
