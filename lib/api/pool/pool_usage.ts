import { FAMILIES, type Family } from "../../inet/mod.ts";
import type { AddressCounts, AddressPoolStatus } from "./address_pool.ts";
import {
  type Condition,
  type ConditionDraft,
  conditionOf,
} from "../base/condition.ts";

/** A reserved address that a pod has. */
export interface ReservedAddress {
  readonly address: string;
  /** Its namespace and name, with "/" between. */
  readonly pod: string;
  /** Index of its block. */
  readonly index: number;
}

/** How many addresses pods have of each block of a pool, by the block's index. */
export interface UsedAddresses
  extends Readonly<Record<Family, ReadonlyMap<number, number>>> {
  /** Reserved addresses that pods have. */
  readonly reserved: readonly ReservedAddress[];
}

/** Condition of an AddressPool, there only while it is true: pods have reserved addresses. */
export const CONDITION_RESERVED_IN_USE = "ReservedInUse";

/** As many pods are named in a message. */
const MAX_NAMED_PODS = 5;

/** Says which pods have reserved addresses of existing blocks; as long as the pods are not known, what was said before stands. */
export function reservedInUseCondition(
  used: UsedAddresses | undefined,
  { blocks, previous }: {
    readonly blocks: ReadonlySet<number>;
    readonly previous: readonly Condition[] | undefined;
  },
): ConditionDraft | undefined {
  if (used === undefined) {
    return conditionOf(previous, CONDITION_RESERVED_IN_USE);
  }
  const found = used.reserved
    .filter(({ index }) => blocks.has(index))
    .map(({ address, pod }) => `${address} (${pod})`)
    .sort();
  if (found.length === 0) return undefined;
  const rest = found.length - MAX_NAMED_PODS;
  const named = found.slice(0, MAX_NAMED_PODS).join(", ");
  return {
    type: CONDITION_RESERVED_IN_USE,
    status: "True",
    reason: "PodsHaveAddresses",
    message: `Pods have reserved addresses: ${named}${
      rest > 0 ? ` and ${rest} more` : ""
    }. They keep them until they are deleted`,
  };
}

/** A number with more digits is written with an exponent. */
const MAX_DIGITS = 9;

/** The addresses that pods have of these blocks; of blocks that do not exist none count. */
export function usedIn(
  used: ReadonlyMap<number, number>,
  blocks: ReadonlySet<number>,
): number {
  let sum = 0;
  used.forEach((count, index) => {
    if (blocks.has(index)) sum += count;
  });
  return sum;
}

/** Of how many of these blocks pods have addresses. */
export function busyBlocks(
  used: Readonly<Record<Family, ReadonlyMap<number, number>>>,
  blocks: ReadonlySet<number>,
): number {
  let busy = 0;
  for (const index of blocks) {
    if (FAMILIES.some((family) => used[family].has(index))) busy++;
  }
  return busy;
}

/** Says how much of a pool pods use, "6/256 (2%)", in the family of which they use most; undefined where that is not known. */
export function usageText(status: AddressPoolStatus): string | undefined {
  const shares = FAMILIES.flatMap((family) => {
    const counts = status[family];
    return counts?.used === undefined
      ? []
      : [{ counts, percent: percentOf(counts) }];
  });
  const [most] = shares.sort((a, b) => b.percent - a.percent);
  if (most === undefined) return undefined;
  const { counts: { used = "0", total }, percent } = most;
  return `${used}/${shortNumber(total)} (${percent}%)`;
}

/** Rounded down: all of a pool is 100 %, and nothing less. */
function percentOf({ used = "0", total }: AddressCounts): number {
  const all = BigInt(total);
  return all === 0n ? 0 : Number(BigInt(used) * 100n / all);
}

function shortNumber(digits: string): string {
  if (digits.length <= MAX_DIGITS) return digits;
  return Number(digits).toExponential(1).replace("+", "");
}
