import { type Block, type Pool, tryBlockOf } from "../../api/mod.ts";
import { type Address, PrefixMap, valuesOf } from "../../inet/mod.ts";

/** Makes a function that finds the block an address lies in. */
export function blockFinder(
  blocks: Iterable<Block>,
): (address: Address) => Block | undefined {
  const index = new PrefixMap<Block>();
  for (const block of blocks) {
    for (const prefix of valuesOf(block.prefixes)) index.add(prefix, block);
  }
  return (address) => index.of(address)[0];
}

/** Makes a function that finds the pool an address lies in. */
export function poolFinder(
  pools: Iterable<Pool>,
): (address: Address) => Pool | undefined {
  const index = new PrefixMap<Pool>();
  for (const pool of pools) {
    for (const subnet of pool.subnets) {
      for (const prefix of valuesOf(subnet)) index.add(prefix, pool);
    }
  }
  return (address) => index.of(address)[0];
}

/** Blocks of the objects that can be read. */
export function readableBlocks(
  objects: readonly Parameters<typeof tryBlockOf>[0][],
): Block[] {
  return objects.flatMap((object) => tryBlockOf(object) ?? []);
}
