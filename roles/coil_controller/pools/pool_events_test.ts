import assert from "node:assert/strict";
import type { AddressPoolStatus } from "../../../lib/api/mod.ts";
import { poolEvents } from "./pool_events.ts";

type Flag = "True" | "False";

function status(
  ready: Flag,
  low: Flag,
  readyReason = "Exhausted",
): AddressPoolStatus {
  const lastTransitionTime = "2026-01-01T00:00:00Z";
  const reason = ready === "True" ? "BlocksAvailable" : readyReason;
  return {
    conditions: [
      {
        type: "Ready",
        status: ready,
        reason,
        message: "ready text",
        lastTransitionTime,
      },
      {
        type: "CapacityLow",
        status: low,
        reason: "x",
        message: "low text",
        lastTransitionTime,
      },
    ],
  };
}

const FINE = status("True", "False");
const LOW = status("True", "True");
const EXHAUSTED = status("False", "True");
const DELETING = status("False", "False", "Deleting");
const BLOCKS = { total: 2, allocated: 1, free: 1 };
const IN_USE = { ...DELETING, blocks: BLOCKS };
const LOW_IN_USE = {
  ...status("False", "True", "Deleting"),
  blocks: BLOCKS,
};

function fineBut(type: string): AddressPoolStatus {
  const { conditions = [] } = FINE;
  const condition = {
    type,
    status: "True" as const,
    reason: "x",
    message: "its text",
    lastTransitionTime: "2026-01-01T00:00:00Z",
  };
  return { blocks: BLOCKS, conditions: [...conditions, condition] };
}

const SOON = fineBut("UsedUpSoon");
const RESERVED = fineBut("ReservedInUse");

for (
  const [title, previous, now, reasons] of [
    ["a pool that is used up soon", FINE, SOON, ["UsedUpSoon"]],
    ["a pool that is still used up soon", SOON, SOON, []],
    ["a pool that grows no more", SOON, FINE, ["UsedUpSoonEnded"]],
    ["pods with reserved addresses", FINE, RESERVED, ["ReservedInUse"]],
    ["the end of such pods", RESERVED, FINE, ["ReservedInUseEnded"]],
    ["a new pool with room", undefined, FINE, []],
    ["a new pool that is low", undefined, LOW, ["CapacityLow"]],
    ["a pool that gets low", FINE, LOW, ["CapacityLow"]],
    ["a pool that stays low", LOW, LOW, []],
    ["a low pool that is used up", LOW, EXHAUSTED, ["Exhausted"]],
    ["a small pool that is used up at once", FINE, EXHAUSTED, ["Exhausted"]],
    ["a used up pool that gets a block back", EXHAUSTED, LOW, []],
    ["a low pool that gets room", LOW, FINE, ["CapacityRestored"]],
    ["a used up pool that gets room", EXHAUSTED, FINE, ["CapacityRestored"]],
    ["a pool without blocks being deleted", FINE, DELETING, []],
    ["a pool in use being deleted", FINE, IN_USE, ["Deleting"]],
    ["a low pool being deleted", LOW, LOW_IN_USE, ["Deleting"]],
    ["a used up pool being deleted", EXHAUSTED, LOW_IN_USE, ["Deleting"]],
    ["a pool that is being deleted", IN_USE, IN_USE, []],
  ] as const
) {
  Deno.test(`poolEvents() of ${title}`, () => {
    const events = poolEvents(
      previous === undefined ? {} : { status: previous },
      now,
    );
    assert.deepEqual(events.map((event) => event.reason), reasons);
    for (const event of events) {
      assert.equal(
        event.type,
        /Restored|Ended/.test(event.reason) ? "Normal" : "Warning",
      );
      assert.notEqual(event.message, "");
    }
  });
}

Deno.test("W28: poolEvents() tells when an overlap begins and when it ends", () => {
  const overlapping: AddressPoolStatus = {
    conditions: [...FINE.conditions ?? [], {
      type: "Overlapping",
      status: "True",
      reason: "SharedAddresses",
      message: "overlap text",
      lastTransitionTime: "2026-01-01T00:00:00Z",
    }],
  };
  assert.deepEqual(poolEvents({ status: FINE }, overlapping), [
    { type: "Warning", reason: "Overlapping", message: "overlap text" },
  ]);
  assert.deepEqual(poolEvents({ status: overlapping }, overlapping), []);
  assert.deepEqual(
    poolEvents({ status: overlapping }, FINE).map(({ reason }) => reason),
    ["OverlapEnded"],
  );
});

Deno.test("poolEvents() warns of addresses in use, also where podCIDRs alone were known before", () => {
  const over = (reason: string): AddressPoolStatus => ({
    conditions: [...FINE.conditions ?? [], {
      type: "ClusterAddresses",
      status: "True",
      reason,
      message: reason,
      lastTransitionTime: "2026-01-01T00:00:00Z",
    }],
  });
  const told = (before: AddressPoolStatus, now: AddressPoolStatus) =>
    poolEvents({ status: before }, now)
      .map(({ type, reason }) => `${type} ${reason}`);
  const [used, harmless] = [over("AddressesInUse"), over("InPodCIDR")];
  assert.deepEqual(told(FINE, harmless), ["Normal InPodCIDR"]);
  assert.deepEqual(told(harmless, used), ["Warning ClusterAddresses"]);
  assert.deepEqual(told(used, used), []);
  assert.deepEqual(told(harmless, FINE), ["Normal ClusterAddressesEnded"]);
});
