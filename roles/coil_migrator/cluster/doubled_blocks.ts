import type { Block } from "../../../lib/api/mod.ts";
import { FAMILIES, type Family, type Prefix } from "../../../lib/inet/mod.ts";

/**
 * Says of each block of v2's that has addresses of a reserved one so: v2 was at work before the manifest was applied,
 * and pods of both may have the same address.
 */
export function doubledBlocks(blocks: readonly Block[]): string[] {
  return FAMILIES.flatMap((family) => doubledIn(family, blocks));
}

/** Sorted by prefix, an overlap is always with the widest block of the other kind that began before. */
function doubledIn(family: Family, blocks: readonly Block[]): string[] {
  const placed = blocks.flatMap((block) => {
    const prefix = block.prefixes[family];
    return prefix === undefined ? [] : [{ block, prefix }];
  }).toSorted((a, b) => a.prefix.compare(b.prefix));
  const texts: string[] = [];
  let reserved: Placed | undefined;
  let given: Placed | undefined;
  for (const place of placed) {
    const isReserved = place.block.reserved;
    const other = isReserved ? given : reserved;
    if (other?.prefix.contains(place.prefix) === true) {
      texts.push(
        isReserved ? doubledText(other, place) : doubledText(place, other),
      );
    }
    const own = isReserved ? reserved : given;
    if (own?.prefix.contains(place.prefix) === true) continue;
    if (isReserved) reserved = place;
    else given = place;
  }
  return texts;
}

interface Placed {
  readonly block: Block;
  readonly prefix: Prefix;
}

function doubledText(given: Placed, reserved: Placed): string {
  return `AddressBlock ${given.block.name} of v2 (${given.prefix}, node ${given.block.node}) has addresses of the reserved ${reserved.block.name} (${reserved.prefix}, node ${reserved.block.node})`;
}
