import {
  type Address,
  type AddressRange,
  Prefix,
  valuesOf,
} from "../../inet/mod.ts";
import { hasAddress, holdAt, type Holder, holdIn, stateOf } from "./holder.ts";
import type { Slot } from "./block_allocator.ts";
import { HeldBlock } from "./held_block.ts";
import { PoolBlocks } from "./pool_blocks.ts";
import { PrefixIndex } from "./prefix_index.ts";
import { Rests } from "./rests.ts";
import type {
  BlockInfo,
  KernelPod,
  Rest,
  RestingAddress,
} from "../base/ports.ts";
import { type AttachmentKey, keyText } from "../../cni/mod.ts";

/**
 * Who holds which address of which block: the whole state of a node's address management.
 *
 * Every method is synchronous and leaves the table consistent, so no lock is needed around it. Nothing here does I/O,
 * reads a clock or decides about blocks.
 */
export class AddressTable {
  readonly #cooldownMs: number;
  readonly #rest: Rest;
  readonly #reservedOf: (pool: string) => readonly AddressRange[];
  readonly #attachments = new Map<string, Holder>();
  readonly #blocks = new Map<string, HeldBlock>();
  readonly #pools = new Map<string, PoolBlocks>();
  readonly #byPrefix = new PrefixIndex<HeldBlock>();
  readonly #byAddress = new PrefixIndex<Holder>();
  readonly #rests = new Rests();
  /** Blocks with the hold of that name: what is given out of others must be held in them too. */
  readonly #overlapping = new Set<HeldBlock>();
  #generation = 0;
  #sequence = 0;

  constructor(
    options: {
      readonly cooldownMs: number;
      /** Default: preferred. */
      readonly rest?: Rest | undefined;
      /** The addresses of a pool that are never given. Default: none. */
      readonly reservedOf?: (pool: string) => readonly AddressRange[];
    },
  ) {
    this.#cooldownMs = options.cooldownMs;
    this.#rest = options.rest ?? "preferred";
    this.#reservedOf = options.reservedOf ?? (() => []);
  }

  /** The attachments by key text. */
  get attachments(): ReadonlyMap<string, Holder> {
    return this.#attachments;
  }

  /** The blocks by UID. */
  get blocks(): ReadonlyMap<string, HeldBlock> {
    return this.#blocks;
  }

  /** The names of the pools of which there are blocks. */
  get pools(): string[] {
    return [...this.#pools.keys()];
  }

  /** A number that blocks adopted from now on exceed. */
  get sequence(): number {
    return this.#sequence;
  }

  find(key: AttachmentKey): Holder | undefined {
    return this.#attachments.get(keyText(key));
  }

  /** The blocks of a pool. */
  blocksOf(pool: string): PoolBlocks {
    return this.#pools.get(pool) ?? new PoolBlocks();
  }

  /** Whether an attachment has the address, in a block or without one. */
  isHeld(address: Address): boolean {
    return this.#byAddress.overlapping(Prefix.host(address)).length > 0;
  }

  /**
   * Whether an address of the pool can be given in a while: when the kernel has let it go, or, where rests are strict,
   * when its rest ends.
   */
  isOneComing(pool: string): boolean {
    const { all, cooling } = this.blocksOf(pool);
    const isResting = this.#rest === "strict" && cooling > 0 &&
      all.some(({ comingBack }) => comingBack.length > 0);
    if (isResting) return true;
    for (const { releasing, blocks } of this.#attachments.values()) {
      if (!releasing) continue;
      for (const { info, isPromising } of blocks) {
        if (info.pool === pool && isPromising) return true;
      }
    }
    return false;
  }

  /**
   * Gives an attachment the next free address of the pool's lowest usable block with room. With `cooling`, one that
   * still rests after use, unless rests are strict. Undefined when there is none.
   */
  assign(
    request: AttachmentKey & { readonly pool: string },
    options: { readonly now: number; readonly cooling?: boolean },
  ): Holder | undefined {
    const { all, open } = this.blocksOf(request.pool);
    if (!options.cooling) {
      const slot = open?.allocate();
      return open && slot && this.#give(request, open, slot, options);
    }
    if (this.#rest === "strict") return undefined;
    for (const block of all) {
      const slot = block.isUsable ? block.allocateCooling() : undefined;
      if (slot !== undefined) return this.#give(request, block, slot, options);
    }
    return undefined;
  }

  #give(
    request: AttachmentKey & { readonly pool: string },
    block: HeldBlock,
    slot: Slot,
    options: { readonly now: number },
  ): Holder {
    const attachment = this.#ensure(request, options.now);
    attachment.addresses = slot.addresses;
    for (const address of valuesOf(slot.addresses)) {
      this.#note(attachment, address);
    }
    holdAt(block, slot.index, attachment);
    for (const other of this.#overlapping) holdIn(other, attachment);
    return attachment;
  }

  #note(attachment: Holder, address: Address): void {
    attachment.held.add(address);
    this.#byAddress.add(Prefix.host(address), attachment);
  }

  #ensure(
    request: AttachmentKey & { readonly pool: string },
    now: number,
  ): Holder {
    const found = this.find(request);
    if (found !== undefined) return found;
    const { pool, containerId, ifname } = request;
    const made: Holder = {
      pool,
      containerId,
      ifname,
      addresses: {},
      held: new Set(),
      blocks: new Set(),
      generation: ++this.#generation,
      releasing: false,
      since: now,
      touchedAt: now,
    };
    this.#attachments.set(keyText(request), made);
    return made;
  }

  /**
   * Records a pod found in the kernel. Its addresses are held from now on, whether a block covers them, and whether
   * another pod has them too.
   */
  register(pod: KernelPod, now: number): Holder {
    const attachment = this.#ensure(pod, now);
    attachment.touchedAt = now;
    attachment.missingSince = undefined;
    if (attachment.held.size === 0) attachment.addresses = pod.addresses;
    if (pod.husk && !attachment.releasing) this.beginRelease(attachment, now);
    for (const address of valuesOf(pod.addresses)) {
      if (hasAddress(attachment, address)) continue;
      this.#note(attachment, address);
      const blocks = this.#byPrefix.overlapping(Prefix.host(address));
      for (const block of blocks) holdIn(block, attachment);
    }
    return attachment;
  }

  /** used or quarantined → releasing. */
  beginRelease(attachment: Holder, now: number): void {
    attachment.releasing = true;
    attachment.since = now;
  }

  /** releasing → used or quarantined, as a new period of use. */
  cancelRelease(attachment: Holder, now: number): void {
    attachment.releasing = false;
    attachment.generation = ++this.#generation;
    attachment.since = now;
    attachment.touchedAt = now;
  }

  /** Forgets an attachment; its addresses are free, or cool down, unless another one holds them. */
  remove(attachment: Holder, now: number): void {
    this.#attachments.delete(keyText(attachment));
    const until = now + this.#cooldownMs;
    for (const address of attachment.held) {
      const host = Prefix.host(address);
      this.#byAddress.delete(host, attachment);
      // Where rests are not strict, a new block is worth more than the rest of its addresses.
      const isWithoutBlock = this.#rest === "strict" &&
        this.#byPrefix.overlapping(host).length === 0;
      if (isWithoutBlock) this.#rests.expect(address, until);
    }
    for (const block of attachment.blocks) {
      for (const index of block.drop(attachment, until)) {
        this.#rests.add({ block, index, until });
      }
    }
    this.purge(now);
  }

  /** Takes over addresses that rest since before the start. To be called before their blocks are added. */
  takeRests(resting: readonly RestingAddress[], now: number): void {
    for (const { address, restedMs } of resting) {
      this.#rests.expect(address, now + this.#cooldownMs - restedMs);
    }
  }

  /** Frees the addresses that have cooled down: false when there is none. */
  purge(now: number): boolean {
    return this.#rests.purge(now);
  }

  /** When the first cooling address is free, if there is one. */
  get coolingUntil(): number | undefined {
    return this.#rests.firstEnd;
  }

  /** Takes over which addresses are never given. */
  reserve(): void {
    for (const block of this.#blocks.values()) {
      block.reserve(this.#reservedOf(block.info.pool));
    }
  }

  /** Adopts a block. Attachments whose addresses it covers hold them in it. */
  addBlock(info: BlockInfo, now: number): HeldBlock {
    const block = new HeldBlock(info, { sequence: ++this.#sequence, now });
    block.reserve(this.#reservedOf(info.pool));
    if (this.#overlappingWith(info).length > 0) {
      block.holds.add("overlapping");
      this.#overlapping.add(block);
    }
    for (const attachment of this.#holdersIn(info)) holdIn(block, attachment);
    this.#rests.begin(block, now);
    this.#blocks.set(info.uid, block);
    for (const prefix of valuesOf(info.prefixes)) {
      this.#byPrefix.add(prefix, block);
    }
    const pool = this.blocksOf(info.pool);
    this.#pools.set(info.pool, pool);
    pool.add(block);
    return block;
  }

  /** Forgets a block. Returns the attachments that held addresses in it; they keep those. */
  removeBlock(block: HeldBlock): Holder[] {
    const { pool, uid, prefixes } = block.info;
    const affected = this.#holdersIn(block.info)
      .filter(({ blocks }) => blocks.delete(block));
    this.#blocks.delete(uid);
    this.#rests.forget(block);
    for (const prefix of valuesOf(prefixes)) {
      this.#byPrefix.delete(prefix, block);
    }
    // mutate: only saves work.
    this.#overlapping.delete(block);
    const blocks = this.blocksOf(pool);
    blocks.delete(block);
    if (blocks.all.length === 0) this.#pools.delete(pool);
    this.#recheckOverlaps();
    return affected;
  }

  #overlappingWith({ prefixes }: BlockInfo): HeldBlock[] {
    return valuesOf(prefixes)
      .flatMap((prefix) => this.#byPrefix.overlapping(prefix));
  }

  /** The attachments with an address in a block, in the order in which they came. */
  #holdersIn({ prefixes }: BlockInfo): Holder[] {
    const holders = valuesOf(prefixes)
      .flatMap((prefix) => this.#byAddress.overlapping(prefix));
    return [...new Set(holders)].sort((a, b) => a.generation - b.generation);
  }

  #recheckOverlaps(): void {
    for (const block of this.#overlapping) {
      const still = this.#overlappingWith(block.info)
        .some(({ sequence }) => sequence < block.sequence);
      if (still) continue;
      block.holds.delete("overlapping");
      // mutate: only saves work.
      this.#overlapping.delete(block);
    }
  }

  /**
   * The prefixes to announce: the node's blocks, and each quarantined address by itself, so that a living pod stays
   * reachable although its block is gone.
   */
  exportedPrefixes(): Prefix[] {
    const prefixes = new Map<string, Prefix>();
    const add = (prefix: Prefix) => prefixes.set(prefix.toString(), prefix);
    for (const { holds, info } of this.#blocks.values()) {
      if (holds.has("returning") || holds.has("edited")) continue;
      valuesOf(info.prefixes).forEach(add);
    }
    for (const attachment of this.#attachments.values()) {
      if (stateOf(attachment) !== "quarantined") continue;
      valuesOf(attachment.addresses).forEach((address) =>
        add(Prefix.host(address))
      );
    }
    return [...prefixes.values()].sort((a, b) => a.compare(b));
  }

  /** Addresses that more than one attachment holds, with the holders. */
  duplicates(): { address: Address; holders: Holder[] }[] {
    const found = new Map<
      string,
      { address: Address; holders: Holder[] }
    >();
    for (const attachment of this.#attachments.values()) {
      for (const address of attachment.held) {
        found.getOrInsert(address.toString(), { address, holders: [] })
          .holders.push(attachment);
      }
    }
    return [...found.values()].filter(({ holders }) => holders.length > 1);
  }
}
