import { type Address, type Prefix, valuesOf } from "../../../lib/inet/mod.ts";
import type { BlockRecord } from "../../../lib/ipam/mod.ts";
import {
  type BlockUse,
  type Eni,
  grantOf,
  prefixesOf,
} from "../../../lib/vpc/mod.ts";
import type { VpcOptions } from "../cloud/options.ts";

/** Facts about the node's addresses for the fleet. */
export interface Addresses {
  /** The blocks as address management has them; undefined before it has started. */
  blocks(): readonly BlockRecord[] | undefined;
  /** How many pods wait for an address, or are going to ask for one. */
  waiting(): number;
  /** Addresses within the prefixes that the host routes. */
  routedWithin(prefixes: readonly Prefix[]): Promise<readonly Address[]>;
  /** Addresses that rested when an earlier process ended. */
  resting(): Promise<readonly Address[]>;
}

/** How pods use blocks, as a plan has to know it. */
export class BlockUses {
  readonly #addresses: Addresses;
  readonly #families: VpcOptions["families"];
  /** By the UIDs of blocks. */
  readonly #emptySince = new Map<string, number>();

  constructor(
    addresses: Addresses,
    { families }: Pick<VpcOptions, "families">,
  ) {
    this.#addresses = addresses;
    this.#families = families;
  }

  /** By address management, or, before it has started, by the kernel. `released` has names of blocks that may go. */
  async read(
    enis: readonly Eni[],
    { now, released }: {
      readonly now: number;
      readonly released: ReadonlySet<string>;
    },
  ): Promise<Map<string, BlockUse>> {
    const records = this.#addresses.blocks();
    if (records === undefined) return await this.#ofKernel(enis);
    const uids = new Set(records.map(({ uid }) => uid));
    for (const uid of this.#emptySince.keys()) {
      if (!uids.has(uid)) this.#emptySince.delete(uid);
    }
    return new Map(records.map((record) => {
      const use = this.#useOf(record, { now, released });
      return [String(use.block), use];
    }));
  }

  #useOf(
    { uid, name, held, cooling, holds }: BlockRecord,
    { now, released }: {
      readonly now: number;
      readonly released: ReadonlySet<string>;
    },
  ): BlockUse {
    const block = grantOf(name);
    const isEmpty = held + cooling === 0;
    if (!isEmpty) this.#emptySince.delete(uid);
    else if (!this.#emptySince.has(uid)) this.#emptySince.set(uid, now);
    const retired = holds.includes("returning");
    // Until the kernel was asked whether any of it is in use, it does not go.
    const isKept = retired && isEmpty && !released.has(name);
    return {
      block,
      used: held,
      cooling: isKept ? 1 : cooling,
      emptySince: this.#emptySince.get(uid),
      retired,
    };
  }

  async #ofKernel(enis: readonly Eni[]): Promise<Map<string, BlockUse>> {
    const blocks = enis.flatMap((eni) =>
      eni.grants.map(({ block }) => ({
        block,
        prefixes: valuesOf(prefixesOf(eni, block, this.#families) ?? {}),
      }))
    );
    const all = blocks.flatMap(({ prefixes }) => prefixes);
    const routed = await this.#addresses.routedWithin(all);
    const resting = await this.#addresses.resting();
    return new Map(blocks.flatMap(({ block, prefixes }) => {
      const used = countWithin(prefixes, routed);
      const cooling = countWithin(prefixes, resting);
      const use = { block, used, cooling, retired: false };
      return used + cooling === 0 ? [] : [[String(block), use]];
    }));
  }
}

/** How many of a block's places have one of the addresses; a pod has one of each family. */
function countWithin(
  prefixes: readonly Prefix[],
  addresses: readonly Address[],
): number {
  const counts = prefixes.map((prefix) =>
    addresses.filter((address) => prefix.contains(address)).length
  );
  return Math.max(0, ...counts);
}
