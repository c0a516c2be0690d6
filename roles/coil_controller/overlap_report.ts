import type { PoolOverlapReport } from "../../lib/api/mod.ts";
import type { PoolOverlap } from "../../lib/ipam/mod.ts";

/** As many are named; of more, their number is told. */
const MAX_NAMED = 4;

/** Says in a sentence what others have of the pool. */
export function overlapReport(
  pool: string,
  { subnets, strays, taken }: PoolOverlap,
): PoolOverlapReport {
  const shared = subnets.map(({ pool: other, subnet }) =>
    other === pool
      ? `${subnet} is in the pool twice`
      : `${subnet} is in AddressPool "${other}" too`
  );
  const parts = [
    ...new Set(shared.sort()),
    ...strays.map((name) =>
      `AddressBlock "${name}" has addresses of the pool, but not those of its index`
    ),
  ];
  const rest = parts.length - MAX_NAMED;
  const text = [
    ...parts.slice(0, MAX_NAMED),
    ...(rest > 0 ? [`${rest} more`] : []),
  ].join("; ");
  return {
    taken,
    message: `${text}. No block is given out whose addresses others have`,
  };
}
