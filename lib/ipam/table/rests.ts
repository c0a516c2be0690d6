import { type Address, Prefix, valuesOf } from "../../inet/mod.ts";
import type { HeldBlock } from "./held_block.ts";
import { PrefixIndex } from "./prefix_index.ts";
import { SortedSet } from "./sorted_set.ts";

/** A position that rests after use, until a time; out of date once it was given again. */
interface RestingPosition {
  readonly block: HeldBlock;
  readonly index: number;
  readonly until: number;
}

/** The rests of all blocks, the first to end first. */
export class Rests {
  readonly #positions = new SortedSet(byEnd);
  /** Addresses that rest without a block, and until when: for the blocks that are still to come. */
  readonly #expected = new PrefixIndex<{ address: Address; until: number }>();

  /** When the first rest ends, if there is one. */
  get firstEnd(): number | undefined {
    return this.#first()?.until;
  }

  /** Records that a position of a block rests. */
  add(position: RestingPosition): void {
    this.#positions.set(position, true);
  }

  /** Lets an address rest that {@linkcode Rests.begin} finds in a block. */
  expect(address: Address, until: number): void {
    const host = Prefix.host(address);
    // mutate: only saves memory.
    for (const former of this.#expected.overlapping(host)) {
      this.#expected.delete(host, former);
    }
    this.#expected.add(host, { address, until });
  }

  /** Lets addresses of a new block rest that did so before it came. */
  begin(block: HeldBlock, now: number): void {
    const rests = valuesOf(block.info.prefixes)
      .flatMap((prefix) => this.#expected.overlapping(prefix))
      .filter(({ until }) => until > now)
      .sort((a, b) => a.until - b.until);
    for (const { address, until } of rests) {
      const index = block.indexOf(address);
      if (index === undefined) continue;
      block.rest(index, until);
      this.add({ block, index, until });
    }
  }

  /** Forgets what rests in a block that is gone. */
  forget(block: HeldBlock): void {
    if (block.coolingCount === 0) return;
    for (const position of [...this.#positions.values]) {
      if (position.block === block) this.#positions.set(position, false);
    }
  }

  /** Frees the positions that have rested: false when there is none. */
  purge(now: number): boolean {
    let isOver = false;
    for (;;) {
      const first = this.#first();
      if (first === undefined || first.until > now) return isOver;
      first.block.endRest(first.index, now);
      isOver = true;
    }
  }

  #first(): RestingPosition | undefined {
    for (;;) {
      const [first] = this.#positions.values;
      if (first?.block.restsUntil(first.index, first.until) !== false) {
        return first;
      }
      this.#positions.set(first, false);
    }
  }
}

function byEnd(a: RestingPosition, b: RestingPosition): number {
  return a.until - b.until || a.block.sequence - b.block.sequence ||
    a.index - b.index;
}
