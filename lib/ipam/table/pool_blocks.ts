import type { HeldBlock } from "./held_block.ts";
import { SortedSet } from "./sorted_set.ts";

/** Contribution of one block to the answers of its pool. */
interface Share {
  readonly free: number;
  readonly held: number;
  readonly cooling: number;
  readonly isOpen: boolean;
  readonly isEmpty: boolean;
}

const NOTHING: Share = {
  free: 0,
  held: 0,
  cooling: 0,
  isOpen: false,
  isEmpty: false,
};

/** The blocks of one pool, and what is asked of them at every ADD: kept up at each change, so that no question walks all. */
export class PoolBlocks {
  readonly #all = new SortedSet(byIndex);
  readonly #open = new SortedSet(byIndex);
  readonly #empty = new SortedSet(byIndex);
  readonly #returning = new Set<HeldBlock>();
  readonly #shares = new Map<HeldBlock, Share>();
  #free = 0;
  #held = 0;
  #cooling = 0;

  /** All blocks, lowest index first. */
  get all(): readonly HeldBlock[] {
    return this.#all.values;
  }

  /** The lowest usable block with room. */
  get open(): HeldBlock | undefined {
    return this.#open.values[0];
  }

  /** The blocks without held and resting addresses that are not on their way back, lowest index first. */
  get empty(): readonly HeldBlock[] {
    return this.#empty.values;
  }

  /** The blocks on their way back. */
  get returning(): ReadonlySet<HeldBlock> {
    return this.#returning;
  }

  /** Number of addresses that can be given now, or, as things look, in a moment. */
  get free(): number {
    return this.#free;
  }

  /** Number of addresses that attachments hold. */
  get held(): number {
    return this.#held;
  }

  /** Number of addresses that rest after use. */
  get cooling(): number {
    return this.#cooling;
  }

  add(block: HeldBlock): void {
    this.#all.set(block, true);
    block.onChange = () => this.#count(block);
    this.#count(block);
  }

  delete(block: HeldBlock): void {
    block.onChange = undefined;
    this.#all.set(block, false);
    this.#returning.delete(block);
    this.#take(block, NOTHING);
    this.#shares.delete(block);
  }

  #count(block: HeldBlock): void {
    const { isUsable, freeCount, heldCount, coolingCount, holds } = block;
    const isReturning = holds.has("returning");
    if (isReturning) this.#returning.add(block);
    else this.#returning.delete(block);
    this.#take(block, {
      free: block.isPromising ? freeCount : 0,
      held: heldCount,
      cooling: coolingCount,
      isOpen: isUsable && freeCount > 0,
      isEmpty: block.isEmpty && !isReturning,
    });
  }

  #take(block: HeldBlock, share: Share): void {
    const before = this.#shares.get(block) ?? NOTHING;
    this.#shares.set(block, share);
    this.#free += share.free - before.free;
    this.#held += share.held - before.held;
    this.#cooling += share.cooling - before.cooling;
    const { isOpen, isEmpty } = share;
    if (isOpen !== before.isOpen) this.#open.set(block, isOpen);
    if (isEmpty !== before.isEmpty) this.#empty.set(block, isEmpty);
  }
}

/** Blocks edited by hand may have the same index. */
function byIndex(a: HeldBlock, b: HeldBlock): number {
  return a.info.index - b.info.index || a.sequence - b.sequence;
}
