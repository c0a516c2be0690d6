import type { Family, Prefix } from "../../../lib/inet/mod.ts";
import {
  blocksOf,
  doubtfulBlocks,
  type Eni,
  type EniBlock,
  grantName,
  type GrantNumbers,
  grantOf,
  NO_GRANTS,
  numberGrants,
  type Situation,
} from "../../../lib/vpc/mod.ts";
import type { Sight } from "../cloud/sight.ts";

/** The blocks of the node's ENIs, as address management sees them. */
export class GrantedBlocks {
  readonly #families: readonly Family[];
  readonly #listeners = new Set<() => void>();
  readonly #released = new Set<string>();
  #numbers: GrantNumbers = NO_GRANTS;
  #all: readonly EniBlock[] = [];
  #retiring: ReadonlySet<string> = new Set();

  constructor({ families }: { readonly families: readonly Family[] }) {
    this.#families = families;
  }

  /** All that EC2 or the metadata service shows. */
  get all(): readonly EniBlock[] {
    return this.#all;
  }

  /** Names of blocks that address management has given back, and EC2 still has. */
  get released(): ReadonlySet<string> {
    return this.#released;
  }

  /** Whether the block of a name is to go back. */
  isRetiring(name: string): boolean {
    return this.#retiring.has(String(grantOf(name)));
  }

  /** Calls back when blocks have come, changed or gone, or others are to go back. */
  subscribe(listener: () => void): Disposable {
    this.#listeners.add(listener);
    return { [Symbol.dispose]: () => void this.#listeners.delete(listener) };
  }

  /** Takes note of what address management gives back. */
  release(names: readonly string[]): void {
    for (const name of names) this.#released.add(name);
  }

  /** Takes note of the blocks that are to go back. */
  retire(blocks: readonly Prefix[]): void {
    const before = this.#retiring;
    this.#retiring = new Set(blocks.map(String));
    if (!this.#retiring.isSubsetOf(before)) this.#changed();
  }

  /** Takes over what EC2 and the metadata service show now; `ready` are the ENIs that the kernel has. */
  publish(
    situation: Situation,
    { ready, sight }: {
      readonly ready: ReadonlySet<string>;
      readonly sight: Sight;
    },
  ): void {
    const { enis } = situation;
    const granted = new Set(
      enis.flatMap(({ id, grants }) =>
        grants.filter(({ inEc2 }) => inEc2).map(({ block }) =>
          grantName(id, block)
        )
      ),
    );
    const returned = new Set(
      [...this.#released].filter((name) => !granted.has(name)),
    );
    this.#numbers = numberGrants(this.#numbers, enis, returned);
    for (const name of returned) this.#released.delete(name);
    const options = {
      numbers: this.#numbers,
      subnets: subnetsOf(enis, sight),
      doubtful: doubtfulBlocks(situation),
      families: this.#families,
    };
    const blocks = enis.flatMap((eni) => blocksOf(eni, options)).map((
      block,
    ) => ({
      ...block,
      usable: block.usable && ready.has(block.eni),
    }));
    const isNews = blocksText(blocks) !== blocksText(this.#all);
    this.#all = blocks;
    if (isNews) this.#changed();
  }

  #changed(): void {
    for (const listener of this.#listeners) listener();
  }
}

/** By ENI. One that the metadata service does not show yet is in the primary's, if EC2 says so. */
function subnetsOf(
  enis: readonly Eni[],
  { facts }: Sight,
): ReadonlyMap<string, Prefix> {
  const primary = enis.find(({ ec2 }) => ec2?.ownership === "primary");
  const ofPrimary = facts.get(primary?.id ?? "")?.subnets.ipv4;
  return new Map(enis.flatMap(({ id, ec2 }) => {
    const isThere = ec2?.subnet === primary?.ec2?.subnet;
    const subnet = facts.get(id)?.subnets.ipv4 ??
      (isThere ? ofPrimary : undefined);
    return subnet === undefined ? [] : [[id, subnet] as const];
  }));
}

function blocksText(blocks: readonly EniBlock[]): string {
  // mutate: no two lists run into the same text either way.
  return blocks.map(({ uid, usable }) => `${uid} ${usable}`).join(" ");
}
