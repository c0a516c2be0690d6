import type { BlockCounts } from "./address_pool.ts";
import type { Condition, ConditionDraft } from "../base/condition.ts";
import { conditionOf } from "../base/condition.ts";

/** Condition of an AddressPool, there only while it is true: most of its blocks are in use, and at the present rate none is left within a day. */
export const CONDITION_USED_UP_SOON = "UsedUpSoon";

/** The condition comes below so many hours, and goes above so many. */
const SOON_HOURS = 24;
const NOT_SO_SOON_HOURS = 36;

/** How fast a pool is used up. */
export interface PoolForecast {
  /** Blocks that came in an hour, less those that went; of all in use or of those with pods, whichever grew less. */
  readonly blocksPerHour: number;
  /** Hours until no block is left at this rate; undefined where it does not grow. */
  readonly hoursLeft?: number | undefined;
}

/**
 * Reports that a pool is used up soon. As long as there is no forecast, what was
 * said before stands; where no block is left, `Ready` says so. Of a pool that is
 * not even half used nothing is said: its first pods come all at once.
 */
export function usedUpCondition(
  forecast: PoolForecast | undefined,
  { blocks, previous }: {
    readonly blocks: BlockCounts;
    readonly previous: readonly Condition[] | undefined;
  },
): ConditionDraft | undefined {
  const { allocated, free } = blocks;
  if (free === 0 || free >= allocated) return undefined;
  const before = conditionOf(previous, CONDITION_USED_UP_SOON);
  if (forecast === undefined) return before;
  const { hoursLeft = Infinity, blocksPerHour } = forecast;
  const limit = before === undefined ? SOON_HOURS : NOT_SO_SOON_HOURS;
  if (hoursLeft >= limit) return undefined;
  const hours = Math.max(1, Math.round(hoursLeft));
  return {
    type: CONDITION_USED_UP_SOON,
    status: "True",
    reason: "BlocksRunOut",
    message: `${Number(blocksPerHour.toPrecision(2))} more blocks are in use ` +
      `every hour: none is left in about ${hours} ${
        hours === 1 ? "hour" : "hours"
      }. Add a subnet, or find the namespace whose pods grow in number`,
  };
}
