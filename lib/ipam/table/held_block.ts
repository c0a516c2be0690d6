import type { Backoff } from "../../async/mod.ts";
import {
  type Address,
  type AddressRange,
  type DualStack,
  FAMILIES,
} from "../../inet/mod.ts";
import { BlockAllocator, type Slot } from "./block_allocator.ts";
import type { BlockInfo } from "../base/ports.ts";

/**
 * Why nothing is given out of a block:
 *
 * - `reserved`: taken over from Coil v1; who uses its addresses is not known
 * - `deleting`: the object has a deletion timestamp
 * - `edited`: the object's addresses, index or pool were changed by hand
 * - `overlapping`: it shares addresses with a block that was there before
 * - `unconfirmed`: the watch says it is gone, and no live list has confirmed or denied that
 * - `unexported`: its route is not in the export table yet
 * - `returning`: it is being given back
 */
export type Hold =
  | "reserved"
  | "deleting"
  | "edited"
  | "overlapping"
  | "unconfirmed"
  | "unexported"
  | "returning";

/** The state of a block's return. */
export interface GiveBack {
  readonly backoff: Backoff;
  /** When to try again. */
  retryAt: number;
  /** Whether the API server has ever been asked: from then on the block may be gone at any time. */
  asked: boolean;
}

/** The holds of a block, which says when they change. */
class Holds extends Set<Hold> {
  readonly #onChange: () => void;

  constructor(onChange: () => void) {
    super();
    this.#onChange = onChange;
  }

  override add(hold: Hold): this {
    super.add(hold);
    this.#onChange();
    return this;
  }

  override delete(hold: Hold): boolean {
    const had = super.delete(hold);
    this.#onChange();
    return had;
  }
}

/** Every holder of addresses, of this block and of others. */
export interface HasAddresses {
  readonly held: ReadonlySet<Address>;
}

/** A block of this node: what the API server says of it, who holds its addresses, and why nothing may be given. */
export class HeldBlock {
  /** The block as it was when it was adopted; a later edit by hand changes only the hold. */
  readonly info: BlockInfo;
  /** Order of adoption. */
  readonly sequence: number;
  readonly holds: Set<Hold> = new Holds(() => this.onChange?.());
  /** Called when holds, holders or rests have changed: for who counts them. */
  onChange: (() => void) | undefined;
  /** Whether the watch has shown it. Until then its absence there means nothing. */
  seenInFeed = false;
  /** Since when nothing is held or cooling; without meaning while something is. */
  emptySince: number;
  /** Undefined until its return is tried. */
  giveBack: GiveBack | undefined;
  readonly #allocator: BlockAllocator;
  readonly #holders = new Map<number, Set<HasAddresses>>();
  /** Positions freed lately, and until when they rest; the first ends first. */
  readonly #cooling = new Map<number, number>();

  constructor(
    info: BlockInfo,
    options: { readonly sequence: number; readonly now: number },
  ) {
    this.info = info;
    this.sequence = options.sequence;
    this.emptySince = options.now;
    this.#allocator = new BlockAllocator(info.prefixes);
    if (info.reserved) this.holds.add("reserved");
    if (info.deleting) this.holds.add("deleting");
  }

  /** Whether addresses may be given out of it. */
  get isUsable(): boolean {
    return this.holds.size === 0;
  }

  /** Whether addresses may be given out of it now, or, as things look, in a moment. */
  get isPromising(): boolean {
    return this.isUsable ||
      [...this.holds].every((hold) =>
        hold === "unexported" || hold === "unconfirmed"
      );
  }

  /** Whether no attachment holds an address and none is cooling. */
  get isEmpty(): boolean {
    return this.#holders.size === 0 && this.#cooling.size === 0;
  }

  /** Number of addresses per family. */
  get size(): number {
    return this.#allocator.size;
  }

  /** Number of positions that can be given at once, were there no hold. */
  get freeCount(): number {
    return this.#allocator.freeCount;
  }

  /** Number of positions that are never given and that no pod has. */
  get reservedCount(): number {
    return this.#allocator.reservedCount;
  }

  /** Number of positions that attachments hold. */
  get heldCount(): number {
    return this.#holders.size;
  }

  /** Number of positions that rest after use. */
  get coolingCount(): number {
    return this.#cooling.size;
  }

  /** When the first cooling position is free, if there is one. */
  get coolingUntil(): number | undefined {
    const [until] = this.#cooling.values();
    return until;
  }

  /** The position of an address, or undefined when it lies outside. */
  indexOf(address: Address): number | undefined {
    return this.#allocator.indexOf(address);
  }

  /** The addresses of each family at a position. */
  addressesAt(index: number): DualStack<Address> {
    return this.#allocator.addressesAt(index);
  }

  /** Whether the object is unchanged since the block was adopted. */
  matches(info: BlockInfo): boolean {
    return info.pool === this.info.pool && info.index === this.info.index &&
      FAMILIES.every((family) =>
        info.prefixes[family]?.toString() ===
          this.info.prefixes[family]?.toString()
      );
  }

  /** Gives the next free position, or undefined when there is none. The caller lets an attachment hold it. */
  allocate(): Slot | undefined {
    return this.#allocator.allocate();
  }

  /** Takes over which addresses are never given; who has one keeps it. */
  reserve(ranges: readonly AddressRange[]): void {
    this.#allocator.reserve(ranges);
    this.onChange?.();
  }

  /** The positions that rest and can be given afterwards, as things look, and until when; the first ends first. */
  get comingBack(): [index: number, until: number][] {
    if (!this.isPromising) return [];
    return [...this.#cooling]
      .filter(([index]) => !this.#allocator.isReserved(index));
  }

  /** Gives the position that has been cooling longest, or undefined when none is. */
  allocateCooling(): Slot | undefined {
    const [[index] = []] = this.comingBack;
    if (index === undefined) return undefined;
    return { index, addresses: this.addressesAt(index) };
  }

  /** Adds a holder to a position. A position can have several holders, all found in the kernel. */
  hold(index: number, holder: HasAddresses): void {
    this.#allocator.take(index);
    this.#cooling.delete(index);
    this.#holders.getOrInsertComputed(index, () => new Set()).add(holder);
    this.onChange?.();
  }

  /**
   * Removes a holder from all its positions here. Those that no attachment holds then rest until {@linkcode HeldBlock.endRest};
   * returns them.
   */
  drop(holder: HasAddresses, restUntil: number): number[] {
    const left: number[] = [];
    for (const address of holder.held) {
      const index = this.indexOf(address);
      const holders = index === undefined
        ? undefined
        : this.#holders.get(index);
      if (index === undefined || !holders?.delete(holder)) continue;
      if (holders.size > 0) continue;
      this.#holders.delete(index);
      this.#cooling.set(index, restUntil);
      left.push(index);
    }
    this.onChange?.();
    return left;
  }

  /** Lets a position rest, unless an attachment holds it. */
  rest(index: number, until: number): void {
    if (this.#holders.has(index)) return;
    this.#allocator.take(index);
    this.#cooling.delete(index);
    this.#cooling.set(index, until);
    this.onChange?.();
  }

  /** Whether a position rests, and until that time. */
  restsUntil(index: number, until: number): boolean {
    return this.#cooling.get(index) === until;
  }

  /** Frees a position that rests. */
  endRest(index: number, now: number): void {
    this.#cooling.delete(index);
    this.#allocator.free(index);
    this.emptySince = now;
    this.onChange?.();
  }
}
