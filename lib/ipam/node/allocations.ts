import type { Address, DualStack } from "../../inet/mod.ts";
import type { AddressTable } from "../table/address_table.ts";
import { AllocationWait } from "./allocation_wait.ts";
import { type Holder, isCovered, stateOf } from "../table/holder.ts";
import type { BlockKeeper } from "../blocks/block_keeper.ts";
import {
  BlockTimeoutError,
  IpamNotReadyError,
  OutOfBlocksError,
  PoolDeletingError,
  PoolPausedError,
  QuarantinedError,
  ReleasedMeanwhileError,
  ReleasePendingError,
} from "../base/errors.ts";
import type { BlockSource, IpamObserver } from "../base/ports.ts";
import { type AllocationRecord, recordOf } from "./reconcile.ts";
import { Waiters } from "../base/waiters.ts";
import type { Clock } from "../../async/mod.ts";
import { type AttachmentKey, keyText } from "../../cni/mod.ts";

/** The container, interface and pool of an allocation. */
export interface AllocationRequest extends AttachmentKey {
  readonly pool: string;
}

/** Addresses given to an attachment. */
export interface Allocation extends AllocationRequest {
  readonly addresses: DualStack<Address>;
  /** Name of the block they are from. */
  readonly block: string;
  readonly generation: number;
  /** Whether the attachment had them before this call. */
  readonly existing: boolean;
}

/** A release that has begun. Only the period of use that it belongs to can be ended with it. */
export interface Releasing extends AllocationRequest {
  readonly addresses: DualStack<Address>;
  readonly generation: number;
}

/** Released keys are remembered this long, against lists of pods that were made before. */
const RELEASE_MEMORY_MS = 60_000;

export interface AllocationsOptions {
  readonly table: AddressTable;
  readonly keeper: BlockKeeper;
  readonly source: BlockSource;
  readonly clock: Clock;
  readonly observer: IpamObserver;
  /** How long one allocation may wait. */
  readonly timeoutMs: number;
  /** Addresses have become free, or begin to cool. */
  readonly onFreed: (addresses: DualStack<Address>) => void;
}

/**
 * The life of attachments' addresses: given, kept, released. The half of `NodeIpam` that ADD and DEL use. It is a
 * superclass, since `NodeIpam` would only pass on each of its seven calls.
 */
export abstract class Allocations {
  readonly #options: AllocationsOptions;
  readonly #table: AddressTable;
  readonly #keeper: BlockKeeper;
  readonly #clock: Clock;
  /** Allocations that wait for a release of their own key. */
  readonly #releases = new Waiters();
  readonly #waits = new Set<AllocationWait>();
  /** Keys released lately, oldest first, and when. */
  readonly #released = new Map<string, number>();

  /** Whether addresses are given; releases work before, too. */
  abstract get isReady(): boolean;

  protected constructor(options: AllocationsOptions) {
    this.#options = options;
    this.#table = options.table;
    this.#keeper = options.keeper;
    this.#clock = options.clock;
  }

  /**
   * Gives addresses of the pool to an attachment, or those that it has already. Waits, within its time limit, for a
   * block of the pool or for an earlier release of the same key.
   *
   * @throws {OutOfBlocksError} when the pool is used up (PoolDeletingError: or is being deleted)
   * @throws {PoolNotFoundError} when there is no such pool
   * @throws {BlockTimeoutError} when no block came in time
   * @throws {ReleasePendingError} when the earlier release did not end in time
   * @throws {QuarantinedError} when the attachment has an address that is not this node's to give
   * @throws {ReleasedMeanwhileError} when the attachment was released while this call waited
   * @throws {IpamNotReadyError} before the start and after the end
   */
  async allocate(
    request: AllocationRequest,
    { signal }: { readonly signal?: AbortSignal } = {},
  ): Promise<Allocation> {
    const startedAt = this.#clock.nowMs();
    let ok = false;
    try {
      signal?.throwIfAborted();
      const allocation = this.#tryAllocate(request) ??
        await this.#allocateLater(request, signal);
      ok = true;
      return allocation;
    } finally {
      const seconds = (this.#clock.nowMs() - startedAt) / 1000;
      const { pool } = request;
      this.#options.observer.allocated?.({ pool, ok, seconds });
    }
  }

  /** One synchronous decision. Undefined: it must be waited for something. */
  #tryAllocate(request: AllocationRequest): Allocation | undefined {
    if (!this.isReady) {
      throw new IpamNotReadyError("the daemon is not ready");
    }
    const now = this.#clock.nowMs();
    const { pool } = request;
    const found = this.#table.find(request);
    if (found?.releasing) return undefined;
    if (found !== undefined) return existing(found, now);
    const state = this.#options.source.poolState(pool);
    if (state === "deleting") throw new PoolDeletingError(pool);
    if (state === "paused") throw new PoolPausedError(pool);
    const given = this.#table.assign(request, { now }) ??
      this.#assignRefused(request, now);
    if (given === undefined) return undefined;
    this.#keeper.kickLater();
    return allocationOf(given, { existing: false });
  }

  /**
   * When no block is to be had, an address that still rests is better than none, unless rests are strict, and one that
   * comes in a while is worth waiting for.
   */
  #assignRefused(
    request: AllocationRequest,
    now: number,
  ): Holder | undefined {
    const refusal = this.#keeper.supply.refusal(request.pool);
    if (refusal === undefined) return undefined;
    const given = this.#table.assign(request, { now, cooling: true });
    if (given === undefined && !this.#table.isOneComing(request.pool)) {
      throw refusal;
    }
    return given;
  }

  async #allocateLater(
    request: AllocationRequest,
    signal: AbortSignal | undefined,
  ): Promise<Allocation> {
    const key = keyText(request);
    const { timeoutMs } = this.#options;
    using wait = new AllocationWait({
      key,
      clock: this.#clock,
      signal,
      timeoutMs,
      onTimeout: () => this.#timeoutOf(request, timeoutMs),
    });
    using _demand = this.#keeper.supply.enter(request.pool);
    this.#waits.add(wait);
    try {
      for (;;) {
        if (this.#table.find(request)?.releasing) {
          await this.#releases.wait(key, wait.signal);
        } else await this.#keeper.wait(request.pool, wait.signal);
        wait.signal.throwIfAborted();
        const allocation = this.#tryAllocate(request);
        if (allocation !== undefined) return allocation;
      }
    } finally {
      // mutate: only frees memory; it has ended.
      this.#waits.delete(wait);
      // Blocks that were kept for this wait may go now.
      this.#keeper.kick();
    }
  }

  #timeoutOf(request: AllocationRequest, timeoutMs: number): Error {
    if (this.#table.find(request)?.releasing) {
      return new ReleasePendingError(request, timeoutMs);
    }
    const cause = this.#keeper.supply.lastFailure(request.pool);
    if (cause instanceof OutOfBlocksError) return this.#withRests(cause);
    return new BlockTimeoutError(
      request.pool,
      timeoutMs,
      cause === undefined ? {} : { cause },
    );
  }

  /** Says what a wait that was in vain has waited for. */
  #withRests(refusal: OutOfBlocksError): Error {
    const { pool, reason, overlap } = refusal;
    const untils = this.#table.blocksOf(pool).all
      .flatMap(({ comingBack }) => comingBack.map(([, until]) => until));
    if (untils.length === 0) return refusal;
    const leftMs = Math.min(...untils) - this.#clock.nowMs();
    const seconds = Math.ceil(leftMs / 1000);
    return new OutOfBlocksError(
      pool,
      `${reason}; ${untils.length} of its addresses are in cooldown, the first for ${seconds} s more`,
      overlap,
    );
  }

  /**
   * Begins to release: no other pod can get the addresses yet. Undefined when the key has none: then there is nothing to
   * do. Calls of the same key share one release; allocations of it that wait for a block are ended.
   */
  beginRelease(key: AttachmentKey): Releasing | undefined {
    const attachment = this.#table.find(key);
    if (attachment === undefined) {
      const text = keyText(key);
      for (const wait of this.#waits) {
        if (wait.key === text) wait.end(new ReleasedMeanwhileError(key));
      }
      return undefined;
    }
    if (!attachment.releasing) {
      this.#table.beginRelease(attachment, this.#clock.nowMs());
    }
    const { containerId, ifname, pool, addresses, generation } = attachment;
    return { containerId, ifname, pool, addresses, generation };
  }

  /**
   * Frees the addresses. The caller has made sure that nothing in the kernel uses them. Does nothing when the release
   * was ended or cancelled before. Never waits for, and never fails by, the API server or the export table.
   */
  finishRelease(releasing: Releasing): void {
    const attachment = this.#ofRelease(releasing);
    if (attachment === undefined) return;
    const now = this.#clock.nowMs();
    const hadOwnRoutes = !isCovered(attachment);
    this.#table.remove(attachment, now);
    this.#rememberRelease(keyText(releasing), now);
    this.noteFreed(releasing);
    if (hadOwnRoutes) this.#keeper.exportRoutes();
  }

  /** Takes a release back: the pod still uses its addresses. Other calls that share the release can no longer end it. */
  cancelRelease(releasing: Releasing): void {
    const attachment = this.#ofRelease(releasing);
    if (attachment === undefined) return;
    this.#table.cancelRelease(attachment, this.#clock.nowMs());
    this.#releases.wake(keyText(releasing));
  }

  /** The addresses of an attachment, if it has any. */
  lookup(key: AttachmentKey): AllocationRecord | undefined {
    const attachment = this.#table.find(key);
    return attachment && recordOf(attachment, this.#clock.nowMs());
  }

  /** Whether no attachment has the address. */
  isFree(address: Address): boolean {
    return !this.#table.isHeld(address);
  }

  /** All attachments. */
  list(): AllocationRecord[] {
    const now = this.#clock.nowMs();
    return [...this.#table.attachments.values()]
      .map((attachment) => recordOf(attachment, now));
  }

  /** The attachment that a release belongs to, unless it is over (W1). */
  #ofRelease(releasing: Releasing): Holder | undefined {
    const attachment = this.#table.find(releasing);
    const same = attachment?.releasing &&
      attachment.generation === releasing.generation;
    return same ? attachment : undefined;
  }

  // mutate: but for the entry itself, this only bounds memory.
  #rememberRelease(key: string, now: number): void {
    this.#released.delete(key);
    this.#released.set(key, now);
    for (const [old, at] of this.#released) {
      if (now - at <= RELEASE_MEMORY_MS) break;
      this.#released.delete(old);
    }
  }

  /** Lets all look again who wait for the addresses of a key to be free, or for any address. */
  protected noteFreed(
    released: AttachmentKey & { readonly addresses: DualStack<Address> },
  ): void {
    this.#options.onFreed(released.addresses);
    this.#releases.wake(keyText(released));
    this.#keeper.freed();
  }

  /** Whether the key was released so lately that a list of pods may be older. */
  protected wasJustReleased(key: string): boolean {
    const at = this.#released.get(key);
    return at !== undefined &&
      this.#clock.nowMs() - at < RELEASE_MEMORY_MS;
  }

  /** Fails all that wait. */
  protected endWaits(): void {
    const reason = new IpamNotReadyError("the daemon is stopping");
    for (const wait of this.#waits) wait.end(reason);
  }
}

function existing(attachment: Holder, now: number): Allocation {
  if (stateOf(attachment) === "quarantined") {
    throw new QuarantinedError(attachment);
  }
  attachment.touchedAt = now;
  attachment.missingSince = undefined;
  return allocationOf(attachment, { existing: true });
}

function allocationOf(
  attachment: Holder,
  { existing }: Pick<Allocation, "existing">,
): Allocation {
  const { pool, containerId, ifname, addresses, generation } = attachment;
  const [block] = attachment.blocks;
  return {
    pool,
    containerId,
    ifname,
    addresses,
    block: block?.info.name ?? "",
    generation,
    existing,
  };
}
