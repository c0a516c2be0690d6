import { blockPrefixes } from "../../../lib/api/mod.ts";
import { FAMILIES } from "../../../lib/inet/mod.ts";
import { reservedBlocks, type Survey } from "./survey.ts";

/**
 * Says of each reserved block that cannot be from a dump why not: its pool is not there, or it has no address of its
 * index. A block of another size than its pool's begins in the block of its index.
 */
export function misplacedBlocks(survey: Survey): string[] {
  const pools = new Map(survey.pools.map((pool) => [pool.name, pool]));
  return reservedBlocks(survey).flatMap((block) => {
    const pool = pools.get(block.pool);
    if (pool === undefined) {
      return `AddressBlock ${block.name} is of pool "${block.pool}", which does not exist`;
    }
    const place = blockPrefixes(pool, block.index);
    const fits = FAMILIES.every((family) => {
      const own = block.prefixes[family];
      return own === undefined || place?.[family]?.overlaps(own) === true;
    });
    if (fits) return [];
    const where = place?.ipv4 ?? place?.ipv6 ?? "outside the pool";
    const what = block.prefixes.ipv4 ?? block.prefixes.ipv6;
    return `AddressBlock ${block.name} is ${what}, but index ${block.index} of pool ${block.pool} is ${where}`;
  });
}
