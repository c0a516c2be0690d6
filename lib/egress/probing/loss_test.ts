import assert from "node:assert/strict";
import fc from "fast-check";
import { ProbeLoss } from "./loss.ts";

Deno.test("ProbeLoss asks for more misses in a row the more probes are lost, and forgets", () => {
  const loss = new ProbeLoss();
  const afterwards = (share: number) => {
    for (let i = 1; i <= 1_000; i++) loss.add(i % 100 >= 100 * share);
    return loss.misses;
  };
  assert.equal(loss.misses, 10);
  assert.deepEqual([0.1, 0.9, 0].map(afterwards), [10, 40, 10]);
});

Deno.test("ProbeLoss is bad from a tenth of probes lost until it is a twentieth", () => {
  const loss = new ProbeLoss();
  const after = (every: number) => {
    for (let i = 1; i <= 1_000; i++) loss.add(i % every !== 0);
    return loss.isBad;
  };
  // One in 40, in 6, in 14, in 40, in 14.
  assert.deepEqual([40, 6, 14, 40, 14].map(after), [
    ...[false, true, true, false, false],
  ]);
});

Deno.test("ProbeLoss counts misses only when an answer follows: a gateway that is gone has none", () => {
  const loss = new ProbeLoss();
  for (let i = 0; i < 1_000; i++) loss.add(false);
  assert.equal(loss.misses, 10);
  loss.add(true);
  assert.ok(loss.misses > 10);
});

Deno.test("ProbeLoss, when it knows how many probes are lost, makes it a rare chance that a gateway which works is", () => {
  fc.assert(
    fc.property(fc.integer({ min: 2, max: 40 }), fc.nat(), (percent, seed) => {
      const loss = new ProbeLoss();
      let state = seed + 1;
      let run = 0;
      for (let i = 0; i < 5_000; i++) {
        state = (state * 48_271) % 2_147_483_647;
        const isAnswered = state % 100 >= percent;
        run = isAnswered ? 0 : run + 1;
        loss.add(isAnswered);
        if (i < 300) continue;
        assert.ok(run < loss.misses, `${run} misses in a row at ${percent} %`);
      }
    }),
  );
});
