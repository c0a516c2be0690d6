import assert from "node:assert/strict";
import { assertSoon, assertWithin, lagWhile } from "./lag.ts";
import { sleep } from "./wait.ts";

Deno.test("lagWhile() sees how long the process stood still", async () => {
  const { value, lagMs } = await lagWhile(() => {
    const endMs = performance.now() + 300;
    while (performance.now() < endMs);
    return Promise.resolve("done");
  });
  assert.equal(value, "done");
  assert.ok(lagMs >= 270, `${lagMs} ms`);
});

Deno.test("lagWhile() sees how long another process takes, also at the end", async () => {
  const { lagMs } = await lagWhile(() => Promise.resolve(), {
    step: () => sleep(300),
  });
  // A timer may be a fraction of a millisecond early.
  assert.ok(lagMs >= 298, `${lagMs} ms`);
});

Deno.test("lagWhile() fails with the work, or with the step", async () => {
  const failing = (text: string) => () => Promise.reject(new Error(text));
  const step = failing("step");
  await assert.rejects(lagWhile(failing("work"), { step }), /^Error: work$/);
  const work = () => sleep(10);
  await assert.rejects(lagWhile(work, { step }), /^Error: step$/);
});

Deno.test("assertWithin() allows ten times the lag", () => {
  const bound = { what: "a repair", limitMs: 100, lagMs: 50 };
  assertWithin(600, bound);
  assert.throws(() => assertWithin(601, bound), {
    message: /^a repair: 601 ms, not 100 ms; .* up to 50 ms late$/,
  });
});

Deno.test("assertSoon() measures the work alone", async () => {
  const step = () => sleep(0);
  const bound = { what: "work", limitMs: 140_000, step };
  assert.ok(await assertSoon(() => sleep(50), bound) >= 48);
  const late = { what: "work", limitMs: -1_000_000, step };
  const tooLate = assertSoon(() => sleep(50), late);
  await assert.rejects(tooLate, { message: /^work: / });
});
