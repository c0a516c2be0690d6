import type { BlockCounts } from "./address_pool.ts";
import type { Condition, ConditionDraft } from "../base/condition.ts";
import { conditionOf } from "../base/condition.ts";

/** Condition of an AddressPool: few blocks are left. */
export const CONDITION_CAPACITY_LOW = "CapacityLow";

/** It becomes true when less than this share of a pool's blocks that are not reserved is free. */
export const CAPACITY_LOW_PERCENT = 10;

/** It stays true below this share, or a pool on the verge would wake all nodes with each block that comes or goes. */
export const CAPACITY_OK_PERCENT = 12;

/** Reports whether few of the usable blocks are free. */
export function lowCondition(
  { total, free }: BlockCounts,
  { usable, previous }: {
    readonly usable: number;
    readonly previous: readonly Condition[] | undefined;
  },
): ConditionDraft {
  const type = CONDITION_CAPACITY_LOW;
  const message = `${free} of ${total} blocks are free`;
  const was = conditionOf(previous, type)?.status === "True";
  const percent = was ? CAPACITY_OK_PERCENT : CAPACITY_LOW_PERCENT;
  if (free * 100 < usable * percent) {
    return { type, status: "True", reason: "FewBlocksFree", message };
  }
  return { type, status: "False", reason: "EnoughBlocksFree", message };
}
