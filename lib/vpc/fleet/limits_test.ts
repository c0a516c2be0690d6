import assert from "node:assert/strict";
import { type Limits, narrowLimits, slotsOf } from "./limits.ts";

const T3_SMALL: Limits = { enis: 3, addressesPerEni: 4, prefixes: true };

/** Spec §3: ENIs, addresses of each, pods' addresses. */
const CAPACITIES = [
  [2, 2, 2],
  [3, 4, 9],
  [3, 6, 15],
  [3, 10, 27],
  [4, 15, 56],
  [8, 30, 232],
  [15, 50, 735],
  [2, 50, 98],
] as const;

Deno.test("slotsOf() leaves one address of each ENI out", () => {
  for (const [enis, addressesPerEni, capacity] of CAPACITIES) {
    const limits = { enis, addressesPerEni, prefixes: true };
    assert.equal(enis * slotsOf(limits), capacity);
  }
});

Deno.test("narrowLimits() takes the smaller of all", () => {
  assert.deepEqual(narrowLimits(T3_SMALL, {}), T3_SMALL);
  assert.equal(narrowLimits(T3_SMALL, { maxEnis: 2 }).enis, 2);
  assert.equal(narrowLimits(T3_SMALL, { maxEnis: 9 }).enis, 3);
  assert.deepEqual(
    narrowLimits(T3_SMALL, {
      eniLimits: { enis: 2, addressesPerEni: 3 },
      maxEnis: 3,
    }),
    { enis: 2, addressesPerEni: 3, prefixes: true },
  );
});

Deno.test("narrowLimits() refuses more than the type has, and none at all", () => {
  const refused = [
    [
      { eniLimits: { enis: 4, addressesPerEni: 4 } },
      "Cannot use ENI limits: enis is 4, the instance type has 3",
    ],
    [
      { eniLimits: { enis: 3, addressesPerEni: 5 } },
      "Cannot use ENI limits: addressesPerEni is 5, the instance type has 4",
    ],
    [
      { eniLimits: { enis: 3, addressesPerEni: 1 } },
      "Cannot use ENI limits: 3 ENIs of 1 addresses leave none for pods",
    ],
    [
      { maxEnis: 0 },
      "Cannot use ENI limits: 0 ENIs of 4 addresses leave none for pods",
    ],
  ] as const;
  for (const [options, message] of refused) {
    assert.throws(() => narrowLimits(T3_SMALL, options), {
      name: "RangeError",
      message,
    });
  }
});
