import { FAMILIES, type Family } from "../inet/mod.ts";
import type { AddressCounts, AddressPoolStatus } from "./address_pool.ts";

/** How many addresses pods have of each block of a pool, by the block's index. */
export type UsedAddresses = Readonly<
  Record<Family, ReadonlyMap<number, number>>
>;

/** A number with more digits is written with an exponent. */
const MAX_DIGITS = 9;

/** The addresses that pods have of these blocks; of blocks that do not exist none count. */
export function usedIn(
  used: ReadonlyMap<number, number>,
  blocks: ReadonlySet<number>,
): number {
  let sum = 0;
  for (const [index, count] of used) if (blocks.has(index)) sum += count;
  return sum;
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
