import assert from "node:assert/strict";
import fc from "fast-check";
import { targetsOf } from "../testing.ts";
import type { Limits } from "./limits.ts";
import {
  checkTargets,
  type Counts,
  type Goal,
  mayLoseBlock,
  mayLoseEni,
  overOf,
  shortOf,
  type Targets,
  without,
} from "./targets.ts";

const T3_SMALL: Limits = { enis: 3, addressesPerEni: 4, prefixes: true };

function goalOf(targets: Partial<Targets>, limits = T3_SMALL): Goal {
  return { targets: targetsOf(targets), limits };
}

function countsOf(counts: Partial<Counts>): Counts {
  return {
    total: 0,
    used: 0,
    cooling: 0,
    waiting: 0,
    prefixes: 0,
    freePrefixes: 0,
    ...counts,
  };
}

/** Spec §8.2, §8.3 and §8.6: targets, total, used, how many are short and how many too many. */
const VECTORS: readonly [Partial<Targets>, Partial<Counts>, number, number][] =
  [
    [{ warmIps: 2, minIps: 5 }, { total: 5 }, 0, 0],
    [{ warmIps: 2, minIps: 5 }, { total: 5, used: 5 }, 2, 0],
    [{ warmIps: 5, minIps: 10 }, { total: 49, used: 3 }, 0, 39],
    [{ warmIps: 1 }, { total: 3 }, 0, 2],
    [{ minIps: 5 }, { total: 3, used: 3 }, 2, 0],
    [{ warmEnis: 1 }, { total: 0 }, 3, 0],
    [{ warmEnis: 1 }, { total: 3, used: 1 }, 1, 0],
    [{ warmEnis: 0 }, { total: 3, used: 1 }, 0, 0],
    [{ warmEnis: 0 }, { total: 3, used: 3 }, 1, 0],
    [{ warmEnis: 1 }, { total: 9 }, 0, 0],
    [{ warmIps: 5, maxPods: 3 }, { total: 3 }, 0, 0],
    [{ warmEnis: 1, maxPods: 3 }, { total: 3, used: 2 }, 0, 0],
    // With an end in pods, no more than these.
    [{ warmIps: 5, maxPods: 3 }, { total: 2 }, 1, 0],
    // Cooling addresses are of no use to a pod that starts.
    [{ warmIps: 1 }, { total: 9, cooling: 9 }, 1, 8],
    [{ warmEnis: 1 }, { total: 3, cooling: 2 }, 2, 0],
    [{ warmIps: 1, maxPods: 4 }, { total: 4, cooling: 4 }, 1, 3],
    // Pods that wait need one each.
    [{ warmIps: 1 }, { total: 1, waiting: 4 }, 4, 0],
    [{ warmEnis: 0 }, { total: 3, used: 3, waiting: 2 }, 3, 0],
    [{ free: { min: 3, max: 6 } }, { total: 6, used: 4 }, 1, 0],
    [{ free: { min: 3, max: 6 } }, { total: 6, used: 3 }, 0, 0],
  ];

for (const [targets, counts, short, over] of VECTORS) {
  const title = JSON.stringify({ ...targets, ...counts });
  Deno.test(`shortOf() is ${short}, overOf() ${over}: ${title}`, () => {
    assert.equal(shortOf(goalOf(targets), countsOf(counts)), short);
    assert.equal(overOf(goalOf(targets), countsOf(counts)), over);
  });
}

/** Prefixes: total and free ones, used addresses, short addresses, prefixes too many. */
const PREFIXES: readonly [
  Partial<Targets>,
  readonly [prefixes: number, free: number, used: number],
  number,
  number,
][] = [
  [{ warmPrefixes: 1 }, [0, 0, 0], 16, 0],
  [{ warmPrefixes: 1 }, [1, 1, 0], 0, 0],
  [{ warmPrefixes: 1 }, [1, 0, 5], 5, 0],
  [{ warmPrefixes: 1 }, [2, 1, 16], 0, 0],
  [{ warmPrefixes: 1 }, [4, 3, 2], 0, 2],
  [{ warmIps: 1, minIps: 1 }, [3, 2, 5], 0, 2],
  [{ warmIps: 1, minIps: 33 }, [4, 3, 5], 0, 1],
  [{ warmIps: 12 }, [4, 3, 5], 0, 2],
  [{ free: { min: 4, max: 20 } }, [3, 2, 5], 0, 2],
  [{ free: { min: 4, max: 20 } }, [2, 1, 12], 0, 0],
];

for (const [targets, [prefixes, free, used], short, over] of PREFIXES) {
  const title = JSON.stringify({ ...targets, prefixes, free, used });
  Deno.test(`prefixes: shortOf() is ${short}, overOf() ${over}: ${title}`, () => {
    const goal = goalOf({ kind: "prefix", ...targets });
    const counts = countsOf({
      total: prefixes * 16,
      used,
      prefixes,
      freePrefixes: free,
    });
    assert.equal(shortOf(goal, counts), short);
    assert.equal(overOf(goal, counts), over);
  });
}

/** Spec §8.3 and §8.6: whether the third ENI may go; targets, all addresses, those without it, used ones. */
const REMOVALS: readonly [Partial<Targets>, number, number, number, boolean][] =
  [
    [{ warmIps: 3, minIps: 1 }, 3, 2, 0, false],
    [{ warmIps: 1, minIps: 5 }, 6, 4, 0, false],
    [{ warmIps: 2, minIps: 4 }, 6, 4, 0, true],
    [{ warmEnis: 1 }, 9, 6, 4, false],
    [{ warmEnis: 1 }, 9, 6, 3, true],
    [{ warmEnis: 1 }, 5, 3, 0, false],
    [{ warmEnis: 0 }, 6, 3, 3, false],
    [{ free: { min: 3, max: 6 } }, 9, 6, 3, false],
    [{ free: { min: 3, max: 6 } }, 9, 6, 2, true],
  ];

for (const [targets, total, left, used, may] of REMOVALS) {
  const title = JSON.stringify({ ...targets, total, left, used });
  Deno.test(`mayLoseEni() is ${may}: ${title}`, () => {
    const all = countsOf({ total, used });
    const rest = countsOf({ total: left, used });
    assert.equal(mayLoseEni(goalOf(targets), all, rest), may);
  });
}

Deno.test("mayLoseEni() keeps as many unused prefixes as wanted, however many addresses are free in other prefixes", () => {
  const goal = goalOf({ kind: "prefix", warmPrefixes: 1 });
  const all = countsOf({ total: 48, used: 2, prefixes: 3, freePrefixes: 1 });
  const rest = without(all, "prefix");
  assert.equal(mayLoseEni(goal, all, rest), false);
  const more = { ...all, total: 64, prefixes: 4, freePrefixes: 2 };
  assert.equal(mayLoseEni(goal, more, without(more, "prefix")), true);
});

Deno.test("mayLoseEni() keeps an ENI while others' addresses rest", () => {
  const goal = goalOf({ warmIps: 1 });
  const all = countsOf({ total: 6, cooling: 3 });
  const rest = countsOf({ total: 3, cooling: 3 });
  assert.equal(mayLoseEni(goal, all, rest), false);
});

Deno.test("mayLoseBlock() gives up blocks of the other kind as soon as they are not needed", () => {
  const goal = goalOf({ kind: "prefix", warmPrefixes: 1 });
  const counts = countsOf({ total: 17, prefixes: 1, freePrefixes: 1 });
  assert.equal(mayLoseBlock(goal, counts, "address"), true);
  assert.equal(mayLoseBlock(goal, counts, "prefix"), false);
  const fewer = countsOf({ total: 17, used: 2, prefixes: 1 });
  assert.equal(mayLoseBlock(goal, fewer, "address"), false);
});

const nat = (max: number) => fc.nat(max);
const targets: fc.Arbitrary<Targets> = fc.record({
  kind: fc.constantFrom("address" as const, "prefix" as const),
  warmEnis: nat(3),
  warmIps: nat(20),
  minIps: nat(40),
  warmPrefixes: fc.integer({ min: 1, max: 3 }),
  maxPods: fc.constantFrom(10, 110, Infinity),
  free: fc.option(
    nat(20).map((min) => ({ min, max: min + 16 })),
    { nil: undefined },
  ),
});

Deno.test("targets: what may go is over, nothing is short then, and what is short is not given back", () => {
  const counts = fc.record({
    used: nat(60),
    cooling: nat(20),
    free: nat(80),
    waiting: nat(5),
  });
  fc.assert(fc.property(targets, counts, (targets, { free, ...some }) => {
    const goal = { targets, limits: T3_SMALL };
    const total = some.used + some.cooling + free;
    const prefixes = Math.floor(total / 16);
    const all = countsOf({
      ...some,
      total,
      prefixes,
      freePrefixes: Math.floor(free / 16),
    });
    const short = shortOf(goal, all);
    if (!mayLoseBlock(goal, all, targets.kind)) return;
    assert.equal(short, 0);
    assert.ok(overOf(goal, all) > 0);
    assert.equal(shortOf(goal, without(all, targets.kind)), 0);
  }));
});

Deno.test("checkTargets() refuses what keeps nothing, grows and shrinks in turn, or is not to be had", () => {
  const refused = (targets: Partial<Targets>, limits = T3_SMALL) => {
    try {
      checkTargets(goalOf(targets, limits));
      return undefined;
    } catch (error) {
      assert.ok(error instanceof RangeError);
      return error.message;
    }
  };
  const old = { ...T3_SMALL, prefixes: false };
  assert.equal(
    refused({ kind: "prefix", warmPrefixes: 1 }, old),
    "Cannot use prefixes: the instance type allows none",
  );
  assert.equal(
    refused({ kind: "prefix" }),
    "Cannot use prefixes: warm IPs, minimum IPs and warm prefixes are all 0",
  );
  assert.equal(
    refused({ free: { min: 3, max: 5 } }),
    "Cannot use targets: free-max is 5, must be at least 6: free-min and what comes at a time",
  );
  assert.match(
    refused({ kind: "prefix", free: { min: 3, max: 18 } }) ?? "",
    /at least 19/,
  );
  for (
    const targets of [
      { kind: "prefix", warmIps: 1 },
      { kind: "prefix", minIps: 1 },
      { kind: "prefix", warmPrefixes: 1 },
      { kind: "prefix", free: { min: 3, max: 19 } },
      { free: { min: 3, max: 6 } },
      { warmEnis: 0 },
    ] as const
  ) {
    assert.equal(refused(targets), undefined, JSON.stringify(targets));
  }
});
