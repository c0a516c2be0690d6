import { type Block, type Pool, tryBlockOf } from "../../api/mod.ts";
import { type Address, type Prefix, valuesOf } from "../../inet/mod.ts";

/** Finds the owner of the prefix that an address lies in, without walking all. */
class PrefixIndex<T> {
  /** Owner by network, by family and length. */
  readonly #networks = new Map<
    string,
    { readonly hostBits: bigint; readonly owners: Map<bigint, T> }
  >();

  add(prefix: Prefix, owner: T): void {
    const key = `${prefix.family}/${prefix.length}`;
    const hostBits = BigInt(prefix.hostBits);
    const entry = this.#networks.get(key) ?? { hostBits, owners: new Map() };
    this.#networks.set(key, entry);
    const network = prefix.address.value >> hostBits;
    if (!entry.owners.has(network)) entry.owners.set(network, owner);
  }

  find(address: Address): T | undefined {
    for (const [key, { hostBits, owners }] of this.#networks) {
      if (!key.startsWith(address.family)) continue;
      const owner = owners.get(address.value >> hostBits);
      if (owner !== undefined) return owner;
    }
    return undefined;
  }
}

/** Makes a function that finds the block an address lies in. */
export function blockFinder(
  blocks: Iterable<Block>,
): (address: Address) => Block | undefined {
  const index = new PrefixIndex<Block>();
  for (const block of blocks) {
    for (const prefix of valuesOf(block.prefixes)) index.add(prefix, block);
  }
  return (address) => index.find(address);
}

/** Makes a function that finds the pool an address lies in. */
export function poolFinder(
  pools: Iterable<Pool>,
): (address: Address) => Pool | undefined {
  const index = new PrefixIndex<Pool>();
  for (const pool of pools) {
    for (const subnet of pool.subnets) {
      for (const prefix of valuesOf(subnet)) index.add(prefix, pool);
    }
  }
  return (address) => index.find(address);
}

/** Blocks of the objects that can be read. */
export function readableBlocks(
  objects: readonly Parameters<typeof tryBlockOf>[0][],
): Block[] {
  return objects.flatMap((object) => tryBlockOf(object) ?? []);
}
