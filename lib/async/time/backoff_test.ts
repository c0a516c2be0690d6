import assert from "node:assert/strict";
import fc from "fast-check";
import { Backoff, retry } from "../mod.ts";
import { RecordingClock } from "../testing.ts";

Deno.test("Backoff.nextMs() doubles up to the limit, and reset() starts over", () => {
  const backoff = new Backoff({ initialMs: 10, maxMs: 35, jitter: 0 });
  assert.deepEqual([1, 2, 3, 4].map(() => backoff.nextMs()), [10, 20, 35, 35]);
  backoff.reset();
  assert.equal(backoff.nextMs(), 10);
});

Deno.test("Backoff.nextMs() stays between the jittered base and the limit", () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 1000 }),
      fc.integer({ min: 1, max: 10_000 }),
      fc.double({ min: 0, max: 1, noNaN: true }),
      (initialMs, maxMs, jitter) => {
        const backoff = new Backoff({ initialMs, maxMs, jitter });
        for (let i = 0; i < 20; i++) {
          const ms = backoff.nextMs();
          assert.ok(
            ms >= Math.min(initialMs, maxMs) * (1 - jitter) && ms <= maxMs,
            `${ms}`,
          );
        }
      },
    ),
  );
});

const quick = () => new Backoff({ initialMs: 0, maxMs: 0 });

Deno.test("retry() returns the first success", async () => {
  const attempts: number[] = [];
  const result = await retry((attempt) => {
    attempts.push(attempt);
    return attempt < 3
      ? Promise.reject(new Error("not yet"))
      : Promise.resolve("done");
  }, { backoff: quick() });
  assert.equal(result, "done");
  assert.deepEqual(attempts, [1, 2, 3]);
});

Deno.test("retry() rethrows the last error when attempts are used up or none may help", async () => {
  const fail = (attempt: number) =>
    Promise.reject(new Error(`attempt ${attempt}`));
  await assert.rejects(
    retry(fail, { backoff: quick(), maxAttempts: 2 }),
    /^Error: attempt 2$/,
  );
  await assert.rejects(
    retry(fail, {
      backoff: quick(),
      shouldRetry: (_error, attempt) => attempt < 4,
    }),
    /^Error: attempt 4$/,
  );
});

Deno.test("retry() stops waiting on abort", async () => {
  const controller = new AbortController();
  const retrying = retry(() => Promise.reject(new Error("never")), {
    backoff: new Backoff({ initialMs: 60_000, maxMs: 60_000 }),
    signal: controller.signal,
  });
  setTimeout(() => controller.abort(), 1);
  await assert.rejects(retrying, { name: "AbortError" });
});

Deno.test("retry() waits any time up to 100 ms at first, and up to 10 s at last", async () => {
  const clock = new RecordingClock();
  const { delays } = clock;
  const fail = () => Promise.reject(new Error("no"));
  await assert.rejects(retry(fail, { clock, maxAttempts: 200 }), /^Error: no$/);
  delays.forEach((ms, i) => assert.ok(ms <= Math.min(10_000, 100 * 2 ** i)));
  const late = delays.slice(8);
  assert.ok(late.some((ms) => ms < 2_000) && late.some((ms) => ms > 8_000));
});
