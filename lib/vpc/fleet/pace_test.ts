import assert from "node:assert/strict";
import type { Action, EniOutcome, RefusalReason } from "./calls.ts";
import {
  atMostOf,
  exhaustedUntil,
  learn,
  nextTry,
  type Pace,
  pausedUntil,
  refusedKinds,
} from "./pace.ts";

const ASSIGN = (count: number, eni = "eni-1"): Action => ({
  kind: "assign",
  eni,
  subnet: "subnet-1",
  what: "address",
  count,
});
const CREATE: Action = {
  kind: "create",
  subnet: "subnet-1",
  what: "address",
  count: 1,
};
const ATTACH: Action = { kind: "attach", eni: "eni-1", device: 1 };
const DONE: EniOutcome = { kind: "done" };
const UNKNOWN: EniOutcome = { kind: "unknown" };
const refused = (why: RefusalReason): EniOutcome => ({ kind: "refused", why });

/** What is learned from calls that ended one after the other, at once. */
function after(
  ended: readonly (readonly [Action, EniOutcome])[],
  random = 1,
): Pace {
  let pace: Pace = new Map();
  for (const [action, outcome] of ended) {
    pace = learn(pace, { action, outcome }, { now: 0, random: () => random });
  }
  return pace;
}

Deno.test("learn() pauses longer from one failure to the next, up to two minutes", () => {
  const pauses = [1, 2, 3, 6, 7, 20].map((failures) =>
    pausedUntil(
      after(Array.from({ length: failures }, () => [ASSIGN(1), UNKNOWN])),
      ASSIGN(1),
    )
  );
  assert.deepEqual(pauses, [2_000, 4_000, 8_000, 64_000, 120_000, 120_000]);
});

Deno.test("learn() spreads pauses", () => {
  const failed = [[ASSIGN(1), refused("other")]] as const;
  assert.equal(pausedUntil(after(failed, 0), ASSIGN(1)), 1_000);
  const full = [[ASSIGN(1), refused("exhausted")]] as const;
  assert.equal(pausedUntil(after(full, 0), ASSIGN(1)), 120_000);
  assert.equal(pausedUntil(after(full, 1), ASSIGN(1)), 180_000);
});

Deno.test("learn() begins again after a success", () => {
  const pace = after([[ASSIGN(1), UNKNOWN], [ASSIGN(1), DONE]]);
  assert.equal(pace.size, 0);
});

Deno.test("learn() pauses one ENI, creating, or attaching: not the others", () => {
  const pace = after([[ASSIGN(1), refused("other")]]);
  assert.equal(pausedUntil(pace, ASSIGN(1, "eni-2")), -Infinity);
  assert.equal(pausedUntil(pace, CREATE), -Infinity);
  assert.equal(pausedUntil(pace, { kind: "delete", eni: "eni-1" }), 2_000);
});

Deno.test("learn() creates no ENI while none can be attached, for minutes at a limit", () => {
  const pace = after([[ATTACH, refused("limit")]]);
  assert.equal(pausedUntil(pace, CREATE), 120_000);
  assert.equal(pausedUntil(pace, ATTACH), 120_000);
  const twice = after([[ATTACH, refused("limit")], [ATTACH, refused("limit")]]);
  assert.equal(pausedUntil(twice, CREATE), 240_000);
});

Deno.test("learn() asks a subnet for half as many, then pauses that kind for it alone", () => {
  let pace = after([[ASSIGN(9), refused("exhausted")]]);
  assert.equal(atMostOf(pace, "subnet-1", "address"), 4);
  assert.ok(pausedUntil(pace, ASSIGN(4)) <= 0);
  pace = after([[ASSIGN(9), refused("exhausted")], [
    ASSIGN(1),
    refused("exhausted"),
  ]]);
  assert.equal(exhaustedUntil(pace, "subnet-1", "address"), 180_000);
  assert.equal(pausedUntil(pace, CREATE), 180_000);
  assert.equal(exhaustedUntil(pace, "subnet-1", "prefix"), -Infinity);
  assert.equal(exhaustedUntil(pace, "subnet-2", "address"), -Infinity);
});

Deno.test("learn() asks a subnet for twice as many after each success, until nothing bounds it", () => {
  const ended: [Action, EniOutcome][] = [[ASSIGN(1), refused("exhausted")]];
  const bounds = [1, 2, 4, 8, 16, 32, 64, Infinity].map((bound) => {
    const found = atMostOf(after(ended), "subnet-1", "address");
    ended.push([ASSIGN(1), DONE]);
    return [bound, found];
  });
  for (const [bound, found] of bounds) assert.equal(found, bound);
});

Deno.test("nextTry() is the first pause that ends", () => {
  const pace = after([
    [ASSIGN(1), UNKNOWN],
    [ASSIGN(1, "eni-2"), refused("limit")],
  ]);
  assert.equal(nextTry(pace, 0), 2_000);
  assert.equal(nextTry(pace, 2_000), 120_000);
  assert.equal(nextTry(pace, 120_000), Infinity);
});

Deno.test("learn() forgets what was not tried again for half an hour", () => {
  const pace = after([[ASSIGN(1), UNKNOWN]]);
  const options = { now: 1_900_000, random: () => 1 };
  const call = { action: ASSIGN(1, "eni-2"), outcome: UNKNOWN };
  assert.deepEqual([...learn(pace, call, options).keys()], ["eni-2"]);
});

Deno.test("refusedKinds() says what a subnet had none of, until it was asked again", () => {
  const one = [ASSIGN(1), refused("exhausted")] as const;
  const kindsOf = (
    ended: readonly (readonly [Action, EniOutcome])[],
    now = 0,
  ) => refusedKinds(after(ended, 0), "subnet-1", { now });
  assert.deepEqual(kindsOf([one]), ["address"]);
  assert.deepEqual(kindsOf([[{ ...CREATE, what: "prefix" }, one[1]]]), [
    "prefix",
  ]);
  // It is asked for fewer at once.
  assert.deepEqual(kindsOf([[ASSIGN(4), refused("exhausted")]]), []);
  assert.deepEqual(kindsOf([[ASSIGN(1), refused("limit")]]), []);
  // The pause of 120 s is over; the answer to the next call may not be there.
  assert.deepEqual(kindsOf([one], 149_999), ["address"]);
  assert.deepEqual(kindsOf([one], 150_000), []);
  assert.deepEqual(kindsOf([one, [ASSIGN(1), DONE]]), []);
  assert.deepEqual(refusedKinds(after([one]), "subnet-2", { now: 0 }), []);
});

Deno.test("learn() pauses nothing when the account makes too many calls", () => {
  for (const action of [CREATE, ATTACH, ASSIGN(1)]) {
    assert.deepEqual(after([[action, refused("throttled")]]), new Map());
  }
  // Nor does it forget why other calls failed.
  const before = [[ASSIGN(1), refused("other")]] as const;
  assert.deepEqual(
    after([...before, [ASSIGN(1), refused("throttled")]]),
    after(before),
  );
});
