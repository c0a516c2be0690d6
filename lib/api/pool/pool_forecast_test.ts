import assert from "node:assert/strict";
import type { ConditionDraft } from "../base/condition.ts";
import { usedUpCondition } from "./pool_forecast.ts";

const BLOCKS = { total: 64, allocated: 60, free: 4 };

function dated(draft: ConditionDraft | undefined) {
  return draft && [{ ...draft, lastTransitionTime: "2026-01-02T03:04:05Z" }];
}

Deno.test("usedUpCondition() comes below a day, and goes above a day and a half", () => {
  const at = (hoursLeft: number | undefined, wasSoon: boolean) => {
    const forecast = { blocksPerHour: 2, hoursLeft };
    const previous = wasSoon ? dated(soon) : undefined;
    return usedUpCondition(forecast, { blocks: BLOCKS, previous });
  };
  const soon = usedUpCondition({ blocksPerHour: 2.345, hoursLeft: 1.4 }, {
    blocks: BLOCKS,
    previous: undefined,
  });
  assert.equal(
    soon?.message,
    "2.3 more blocks are in use every hour: none is left in about 1 hour. Add a subnet, or find the namespace whose pods grow in number",
  );
  assert.equal(at(24, false), undefined);
  assert.match(at(23.9, false)?.message ?? "", /about 24 hours/);
  assert.match(at(35.9, true)?.message ?? "", /about 36 hours/);
  assert.equal(at(36, true), undefined);
  assert.equal(at(undefined, true), undefined, "it does not grow");
});

Deno.test("usedUpCondition() stands while there is no forecast, and gives way to Exhausted", () => {
  const forecast = { blocksPerHour: 4, hoursLeft: 1 };
  const first = usedUpCondition(forecast, {
    blocks: BLOCKS,
    previous: undefined,
  });
  const previous = dated(first);
  const later = usedUpCondition(undefined, { blocks: BLOCKS, previous });
  assert.equal(later?.message, first?.message);
  const none = { blocks: BLOCKS, previous: undefined };
  assert.equal(usedUpCondition(undefined, none), undefined);
  const blocks = { total: 64, allocated: 64, free: 0 };
  assert.equal(usedUpCondition(forecast, { blocks, previous }), undefined);
});

Deno.test("usedUpCondition() says nothing of the first pods of a pool", () => {
  const of = (allocated: number) =>
    usedUpCondition({ blocksPerHour: 4, hoursLeft: 8 }, {
      blocks: { total: 64, allocated, free: 64 - allocated },
      previous: undefined,
    });
  assert.equal(of(32), undefined);
  assert.equal(of(33)?.type, "UsedUpSoon");
});
