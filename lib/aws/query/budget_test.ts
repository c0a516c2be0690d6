import assert from "node:assert/strict";
import { sleep } from "../../async/mod.ts";
import { FakeClock, settle } from "../../async/testing.ts";
import { type Attempt, CallBudget } from "./budget.ts";
import { AwsError, AwsNoAnswerError } from "../base/errors.ts";

const READ = { name: "DescribeSubnets", kind: "read" } as const;
const CHANGE = { name: "AssignPrivateIpAddresses", kind: "change" } as const;
const CREATE = {
  name: "CreateNetworkInterface",
  kind: "change",
  isRepeatable: true,
} as const;
const RATE = { burst: 3, perSecond: 2 };

function refusal(code: string, status = 400): AwsError {
  const [call, peer, service] = ["DescribeSubnets", "EC2", "ec2"];
  return new AwsError({ call, peer, service, code, status, reason: "" });
}

/** A budget whose pauses are as long as can be, and whose other delays are next to nothing; and its clock. */
function bed(): { clock: FakeClock; budget: CallBudget } {
  const clock = new FakeClock();
  const rates = { read: RATE, change: RATE };
  return {
    clock,
    budget: new CallBudget({ clock, rates, random: () => 0.999_999 }),
  };
}

/** Fails with these, one after the other, then succeeds. */
function failing(...errors: readonly Error[]): {
  make: () => Promise<string>;
  count: () => number;
} {
  let count = 0;
  return {
    make: () => {
      const error = errors[count++];
      return error === undefined
        ? Promise.resolve("done")
        : Promise.reject(error);
    },
    count: () => count,
  };
}

Deno.test("CallBudget makes calls in their order, as many as its rate says", async () => {
  const { clock, budget } = bed();
  const made: number[] = [];
  const calls = [0, 1, 2, 3, 4, 5].map((i) =>
    budget.spend(READ, async () => {
      await settle(1);
      made.push(i);
    })
  );
  await clock.advance(0);
  assert.deepEqual(made, [0, 1, 2]);
  await clock.advance(499);
  assert.equal(made.length, 3);
  await clock.advance(1);
  assert.deepEqual(made, [0, 1, 2, 3]);
  await clock.advance(1_000);
  assert.deepEqual(made, [0, 1, 2, 3, 4, 5]);
  await Promise.all(calls);
});

Deno.test("CallBudget paces what reads apart from what changes", async () => {
  const { clock, budget } = bed();
  const reads = [0, 1, 2, 3].map(() => budget.spend(READ, async () => {}));
  assert.equal(await budget.spend(CHANGE, async () => "done"), "done");
  await clock.advance(500);
  await Promise.all(reads);
});

Deno.test("CallBudget lets a waiting call go when its signal aborts, and none behind it waits for that", async () => {
  const { clock, budget } = bed();
  for (let i = 0; i < 3; i++) await budget.spend(READ, async () => {});
  const abort = new AbortController();
  const { signal } = abort;
  const given = budget.spend(READ, async () => "made", { signal });
  const next = budget.spend(READ, async () => "made");
  const queued = budget.spend(READ, async () => "made", { signal });
  await clock.advance(1);
  abort.abort(new Error("enough"));
  await assert.rejects(given, /enough/);
  await assert.rejects(queued, /enough/);
  await clock.advance(1_000);
  assert.equal(await next, "made");
  assert.equal(clock.pending, 0);
});

Deno.test("CallBudget pauses all calls of a kind when one is throttled", async () => {
  const { clock, budget } = bed();
  const { make, count } = failing(refusal("RequestLimitExceeded", 503));
  const first = budget.spend(CHANGE, make);
  await clock.advance(0);
  assert.equal(count(), 1);
  assert.ok(budget.pausedMs("change") > 499);
  assert.equal(budget.pausedMs("read"), 0);
  let wasMade = false;
  const second = budget.spend(CHANGE, async () => void (wasMade = true));
  assert.equal(await budget.spend(READ, async () => "read"), "read");
  await clock.advance(499);
  assert.deepEqual([count(), wasMade], [1, false]);
  await clock.advance(1);
  assert.equal(await first, "done");
  await second;
  assert.equal(budget.pausedMs("change"), 0);
});

Deno.test("CallBudget pauses no longer than before once calls were let through", async () => {
  const { clock, budget } = bed();
  for (let i = 0; i < 2; i++) {
    const { make } = failing(refusal("RequestLimitExceeded"));
    const made = budget.spend(READ, make);
    await clock.advance(0);
    assert.equal(Math.round(budget.pausedMs("read")), 500);
    await clock.advance(2_000);
    await made;
  }
});

Deno.test("CallBudget gives up after as many attempts as it says", async () => {
  const { clock, budget } = bed();
  const error = refusal("RequestLimitExceeded");
  const { make, count } = failing(...Array.from({ length: 9 }, () => error));
  const rejected = assert.rejects(
    budget.spend(READ, make),
    (e) => e === error,
  );
  await clock.advance(60_000);
  await rejected;
  assert.equal(count(), 5);
  assert.equal(clock.pending, 0);
});

const NONE = new AwsNoAnswerError("Cannot reach EC2");
const UNKNOWN: readonly Error[] = [
  refusal("InternalError", 500),
  refusal("Unavailable", 503),
  NONE,
];

Deno.test("CallBudget repeats what reads, and what has a token, when AWS or the network failed", async () => {
  for (const call of [READ, CREATE]) {
    const { clock, budget } = bed();
    const { make, count } = failing(...UNKNOWN);
    const made = budget.spend(call, make);
    await clock.advance(10_000);
    assert.equal(await made, "done");
    assert.equal(count(), 4);
  }
});

Deno.test("CallBudget waits longer before each attempt after a failure", async () => {
  const clock = new FakeClock();
  const budget = new CallBudget({ clock, random: () => 0 });
  const { make, count } = failing(...UNKNOWN);
  const made = budget.spend(READ, make);
  const counts: number[] = [];
  for (const ms of [199, 1, 399, 1, 799, 1]) {
    await clock.advance(ms);
    counts.push(count());
  }
  assert.deepEqual(counts, [1, 2, 2, 3, 3, 4]);
  assert.equal(await made, "done");
});

Deno.test("CallBudget does not repeat a change that may have been made", async () => {
  for (const error of UNKNOWN) {
    const { budget } = bed();
    const { make, count } = failing(error);
    await assert.rejects(budget.spend(CHANGE, make), (e) => e === error);
    assert.equal(count(), 1);
  }
});

Deno.test("CallBudget repeats nothing that was refused", async () => {
  const { budget } = bed();
  const { make, count } = failing(refusal("InsufficientCidrBlocks"));
  await assert.rejects(budget.spend(READ, make), /InsufficientCidrBlocks/);
  assert.equal(count(), 1);
});

Deno.test("CallBudget ends between attempts when the signal aborts", async () => {
  const { clock, budget } = bed();
  const { make, count } = failing(...UNKNOWN);
  const abort = new AbortController();
  const made = budget.spend(READ, make, { signal: abort.signal });
  await clock.advance(0);
  abort.abort(new Error("enough"));
  await assert.rejects(made, /enough/);
  assert.equal(count(), 1);
  assert.equal(clock.pending, 0);
});

Deno.test("CallBudget reports each attempt with its result and time", async () => {
  const clock = new FakeClock();
  const attempts: Attempt[] = [];
  const budget = new CallBudget({
    clock,
    random: () => 0.999_999,
    onAttempt: (attempt) => attempts.push(attempt),
  });
  const unavailable = refusal("Unavailable", 503);
  const { make } = failing(unavailable, NONE);
  const made = budget.spend(READ, async () => {
    await sleep(70, { clock });
    return await make();
  });
  await clock.advance(1_000);
  await made;
  const common = { call: READ.name, refusal: undefined, durationMs: 70 };
  assert.deepEqual(attempts, [
    { ...common, result: "Unavailable", refusal: unavailable },
    { ...common, result: "none" },
    { ...common, result: "success" },
  ]);
});
