import assert from "node:assert/strict";
import { Allowance } from "../../async/mod.ts";
import { Pause } from "./pause.ts";

const WHOLE = () => 1;

Deno.test("Pause doubles with each refusal, up to a minute, and halves with each success", () => {
  const pause = new Pause(WHOLE);
  assert.equal(pause.leftMs(0), 0);
  const lengths: number[] = [];
  for (let nowMs = 0; lengths.length < 9;) {
    pause.refused(nowMs, nowMs);
    lengths.push(pause.leftMs(nowMs));
    nowMs += pause.leftMs(nowMs);
    assert.equal(pause.leftMs(nowMs), 0);
  }
  assert.deepEqual(
    lengths,
    [500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000],
  );
  pause.admitted();
  pause.admitted();
  pause.refused(1e6, 1e6);
  assert.equal(pause.leftMs(1e6), 30_000);
});

Deno.test("Pause counts refusals of calls that were under way together once", () => {
  const pause = new Pause(WHOLE);
  for (const nowMs of [10, 11, 12]) pause.refused(0, nowMs);
  assert.equal(pause.leftMs(10), 500);
});

Deno.test("Pause lasts any part of its length", () => {
  for (const part of [0, 0.25, 0.75]) {
    const pause = new Pause(() => part);
    pause.refused(0, 0);
    assert.equal(pause.leftMs(0), part * 500);
  }
});

interface Node {
  readonly pause: Pause;
  nextMs: number;
  calls: number;
}

/** The same numbers in each run: a linear congruential generator. */
function numbers(seed: number): () => number {
  let state = seed;
  return () =>
    (state = (state * 1_664_525 + 1_013_904_223) % 2 ** 32) /
    2 ** 32;
}

/** When each of the nodes, which begin within a minute, has made its calls of an account. */
function readyMs(nodes: number, calls: number, perSecond: number): number[] {
  const random = numbers(nodes);
  let nowMs = 0;
  const account = new Allowance(
    { burst: 50, perSecond },
    { nowMs: () => nowMs },
  );
  const waiting: Node[] = Array.from({ length: nodes }, () => ({
    pause: new Pause(random),
    nextMs: random() * 60_000,
    calls,
  }));
  const ready: number[] = [];
  for (nowMs = 0; ready.length < nodes; nowMs += 10) {
    for (const node of waiting) {
      if (node.calls === 0 || node.nextMs > nowMs) continue;
      if (account.take()) {
        node.pause.admitted();
        if (--node.calls === 0) ready.push(nowMs);
      } else node.pause.refused(nowMs, nowMs);
      node.nextMs = nowMs + Math.max(50, node.pause.leftMs(nowMs));
    }
  }
  return ready;
}

Deno.test("Pause: of 2,000 nodes that begin within a minute none waits more than twice its share", () => {
  const [nodes, calls, perSecond] = [2_000, 2, 5];
  const last = Math.max(...readyMs(nodes, calls, perSecond));
  const shareMs = nodes * calls / perSecond * 1_000;
  assert.ok(last < 2 * shareMs, `${last} ms of ${shareMs}`);
});
