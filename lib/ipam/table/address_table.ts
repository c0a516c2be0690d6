import {
  type Address,
  type AddressRange,
  Prefix,
  valuesOf,
} from "../../inet/mod.ts";
import { hasAddress, type Holder, stateOf } from "./holder.ts";
import type { Slot } from "./block_allocator.ts";
import { HeldBlock } from "./held_block.ts";
import type { BlockInfo, KernelPod } from "../base/ports.ts";
import { type AttachmentKey, keyText } from "../../cni/mod.ts";

/**
 * Who holds which address of which block: the whole state of a node's address management.
 *
 * Every method is synchronous and leaves the table consistent, so no lock is needed around it. Nothing here does I/O,
 * reads a clock or decides about blocks.
 */
export class AddressTable {
  readonly #cooldownMs: number;
  readonly #reservedOf: (pool: string) => readonly AddressRange[];
  readonly #attachments = new Map<string, Holder>();
  readonly #blocks = new Map<string, HeldBlock>();
  /** Blocks by pool, lowest index first. */
  readonly #pools = new Map<string, HeldBlock[]>();
  /** Blocks with the hold of that name: what is given out of others must be held in them too. */
  readonly #overlapping = new Set<HeldBlock>();
  #generation = 0;
  #sequence = 0;

  constructor(
    options: {
      readonly cooldownMs: number;
      /** The addresses of a pool that are never given. Default: none. */
      readonly reservedOf?: (pool: string) => readonly AddressRange[];
    },
  ) {
    this.#cooldownMs = options.cooldownMs;
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

  /** The blocks of a pool, lowest index first. */
  blocksOf(pool: string): readonly HeldBlock[] {
    return this.#pools.get(pool) ?? [];
  }

  /** Whether an attachment has the address, in a block or without one. */
  isHeld(address: Address): boolean {
    return this.#attachments.values().some((holder) =>
      hasAddress(holder, address)
    );
  }

  /** Number of addresses of a pool that can be given now, or, as things look, in a moment. */
  freeCount(pool: string): number {
    return this.blocksOf(pool).reduce(
      (sum, block) => block.isPromising ? sum + block.freeCount : sum,
      0,
    );
  }

  /** Number of addresses of a pool that attachments hold. */
  heldCount(pool: string): number {
    return this.blocksOf(pool).reduce((sum, block) => sum + block.heldCount, 0);
  }

  /** Whether an address of the pool is being released: it can be given as soon as the kernel has let it go. */
  isReleasing(pool: string): boolean {
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
   * still rests after use. Undefined when there is none.
   */
  assign(
    request: AttachmentKey & { readonly pool: string },
    options: { readonly now: number; readonly cooling?: boolean },
  ): Holder | undefined {
    for (const block of this.blocksOf(request.pool)) {
      if (!block.isUsable) continue;
      const slot = options.cooling ? block.allocateCooling() : block.allocate();
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
      attachment.held.add(address);
    }
    holdAt(block, slot.index, attachment);
    for (const other of this.#overlapping) holdIn(other, attachment);
    return attachment;
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
      attachment.held.add(address);
      for (const block of this.#blocks.values()) holdIn(block, attachment);
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
    for (const block of attachment.blocks) {
      block.drop(attachment, { now, cooldownMs: this.#cooldownMs });
    }
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
    const overlapping = [...this.#blocks.values()]
      .some((other) => block.overlaps(other));
    if (overlapping) {
      block.holds.add("overlapping");
      this.#overlapping.add(block);
    }
    for (const attachment of this.#attachments.values()) {
      holdIn(block, attachment);
    }
    this.#blocks.set(info.uid, block);
    const blocks = [...this.blocksOf(info.pool), block].sort(byIndex);
    this.#pools.set(info.pool, blocks);
    return block;
  }

  /** Forgets a block. Returns the attachments that held addresses in it; they keep those. */
  removeBlock(block: HeldBlock): Holder[] {
    const { pool, uid } = block.info;
    const affected: Holder[] = [];
    for (const attachment of this.#attachments.values()) {
      if (attachment.blocks.delete(block)) affected.push(attachment);
    }
    this.#blocks.delete(uid);
    // mutate: only saves work.
    this.#overlapping.delete(block);
    const blocks = this.blocksOf(pool).filter((other) => other !== block);
    if (blocks.length > 0) this.#pools.set(pool, blocks);
    else this.#pools.delete(pool);
    this.#recheckOverlaps();
    return affected;
  }

  #recheckOverlaps(): void {
    for (const block of this.#overlapping) {
      const still = [...this.#blocks.values()].some((other) =>
        other.sequence < block.sequence && block.overlaps(other)
      );
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
        const text = address.toString();
        const entry = found.get(text) ?? { address, holders: [] };
        entry.holders.push(attachment);
        found.set(text, entry);
      }
    }
    return [...found.values()].filter(({ holders }) => holders.length > 1);
  }
}

function holdIn(block: HeldBlock, attachment: Holder): void {
  for (const address of attachment.held) {
    const index = block.indexOf(address);
    if (index !== undefined) holdAt(block, index, attachment);
  }
  complete(attachment, block);
}

/**
 * A pod has an address of each family of its block, of the same position. The kernel may show one only: when its
 * daemon was killed between the two, or another program removed one.
 */
function complete(attachment: Holder, block: HeldBlock): void {
  const [known] = valuesOf(attachment.addresses);
  const index = known && block.indexOf(known);
  if (index === undefined || block.info.pool !== attachment.pool) return;
  attachment.addresses = {
    ...block.addressesAt(index),
    ...attachment.addresses,
  };
}

function holdAt(block: HeldBlock, index: number, attachment: Holder): void {
  block.hold(index, attachment);
  attachment.blocks.add(block);
}

function byIndex(a: HeldBlock, b: HeldBlock): number {
  return a.info.index - b.info.index;
}
