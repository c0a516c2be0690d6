import type { Address, DualStack } from "../../inet/mod.ts";
import { AllocationWait } from "./allocation_wait.ts";
import { type Holder, isCovered, stateOf } from "../table/holder.ts";
import { BlockKeeper } from "../blocks/block_keeper.ts";
import type { NodeContext } from "../blocks/context.ts";
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
import { type AllocationRecord, recordOf } from "./reconcile.ts";
import { Waiters } from "../base/waiters.ts";
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

/**
 * The life of attachments' addresses: given, kept, released. The half of `NodeIpam` that ADD and DEL use. It is a
 * superclass, since `NodeIpam` would only pass on each of its seven calls.
 */
export abstract class Allocations {
  protected readonly context: NodeContext;
  protected readonly keeper: BlockKeeper;
  /** Allocations that wait for a release of their own key. */
  readonly #releases = new Waiters();
  readonly #waits = new Set<AllocationWait>();
  /** Keys released lately, oldest first, and when. */
  readonly #released = new Map<string, number>();

  /** Whether addresses are given; releases work before, too. */
  abstract get isReady(): boolean;

  protected constructor(context: NodeContext) {
    this.context = context;
    this.keeper = new BlockKeeper(context);
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
    const { clock, observer } = this.context;
    const startedAt = clock.nowMs();
    let ok = false;
    try {
      signal?.throwIfAborted();
      const allocation = this.#tryAllocate(request) ??
        await this.#allocateLater(request, signal);
      ok = true;
      return allocation;
    } finally {
      const seconds = (clock.nowMs() - startedAt) / 1000;
      const { pool } = request;
      observer.allocated?.({ pool, ok, seconds });
    }
  }

  /** One synchronous decision. Undefined: it must be waited for something. */
  #tryAllocate(request: AllocationRequest): Allocation | undefined {
    if (!this.isReady) {
      throw new IpamNotReadyError("the daemon is not ready");
    }
    const { table, clock, source } = this.context;
    const now = clock.nowMs();
    const { pool } = request;
    const found = table.find(request);
    if (found?.releasing) return undefined;
    if (found !== undefined) return existing(found, now);
    const state = source.poolState(pool);
    if (state === "deleting") throw new PoolDeletingError(pool);
    if (state === "paused") throw new PoolPausedError(pool);
    const given = table.assign(request, { now }) ??
      this.#assignRefused(request, now);
    if (given === undefined) return undefined;
    this.keeper.kickLater();
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
    const { table, supply } = this.context;
    const refusal = supply.refusal(request.pool);
    if (refusal === undefined) return undefined;
    const given = table.assign(request, { now, cooling: true });
    if (given === undefined && !table.isOneComing(request.pool)) {
      throw refusal;
    }
    return given;
  }

  async #allocateLater(
    request: AllocationRequest,
    signal: AbortSignal | undefined,
  ): Promise<Allocation> {
    const key = keyText(request);
    const { table, supply } = this.context;
    using wait = new AllocationWait({
      ...this.context,
      key,
      signal,
      onTimeout: () => this.#timeoutOf(request),
    });
    using _demand = supply.enter(request.pool);
    this.#waits.add(wait);
    try {
      for (;;) {
        if (table.find(request)?.releasing) {
          await this.#releases.wait(key, wait.signal);
        } else await this.keeper.wait(request.pool, wait.signal);
        wait.signal.throwIfAborted();
        const allocation = this.#tryAllocate(request);
        if (allocation !== undefined) return allocation;
      }
    } finally {
      // mutate: only frees memory; it has ended.
      this.#waits.delete(wait);
      // Blocks that were kept for this wait may go now.
      this.keeper.kick();
    }
  }

  #timeoutOf(request: AllocationRequest): Error {
    const { table, supply, requestTimeoutMs } = this.context;
    if (table.find(request)?.releasing) {
      return new ReleasePendingError(request, requestTimeoutMs);
    }
    const cause = supply.lastFailure(request.pool);
    if (cause instanceof OutOfBlocksError) return this.#withRests(cause);
    return new BlockTimeoutError(
      request.pool,
      requestTimeoutMs,
      cause === undefined ? {} : { cause },
    );
  }

  /** Says what a wait that was in vain has waited for. */
  #withRests(refusal: OutOfBlocksError): Error {
    const { pool, reason, overlap } = refusal;
    const { table, clock } = this.context;
    const untils = table.blocksOf(pool).all
      .flatMap(({ comingBack }) => comingBack.map(([, until]) => until));
    if (untils.length === 0) return refusal;
    const leftMs = Math.min(...untils) - clock.nowMs();
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
    const { table, clock } = this.context;
    const attachment = table.find(key);
    if (attachment === undefined) {
      const text = keyText(key);
      for (const wait of this.#waits) {
        if (wait.key === text) wait.end(new ReleasedMeanwhileError(key));
      }
      return undefined;
    }
    if (!attachment.releasing) {
      table.beginRelease(attachment, clock.nowMs());
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
    const now = this.context.clock.nowMs();
    const hadOwnRoutes = !isCovered(attachment);
    this.context.table.remove(attachment, now);
    this.#rememberRelease(keyText(releasing), now);
    this.noteFreed(releasing);
    if (hadOwnRoutes) this.keeper.exportRoutes();
  }

  /** Takes a release back: the pod still uses its addresses. Other calls that share the release can no longer end it. */
  cancelRelease(releasing: Releasing): void {
    const attachment = this.#ofRelease(releasing);
    if (attachment === undefined) return;
    const { table, clock } = this.context;
    table.cancelRelease(attachment, clock.nowMs());
    this.#releases.wake(keyText(releasing));
  }

  /** The addresses of an attachment, if it has any. */
  lookup(key: AttachmentKey): AllocationRecord | undefined {
    const { table, clock } = this.context;
    const attachment = table.find(key);
    return attachment && recordOf(attachment, clock.nowMs());
  }

  /** Whether no attachment has the address. */
  isFree(address: Address): boolean {
    return !this.context.table.isHeld(address);
  }

  /** All attachments. */
  list(): AllocationRecord[] {
    const { table, clock } = this.context;
    const now = clock.nowMs();
    return [...table.attachments.values()]
      .map((attachment) => recordOf(attachment, now));
  }

  /** The attachment that a release belongs to, unless it is over (W1). */
  #ofRelease(releasing: Releasing): Holder | undefined {
    const attachment = this.context.table.find(releasing);
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
    this.context.onFreed(released.addresses);
    this.#releases.wake(keyText(released));
    this.keeper.freed();
  }

  /** Whether the key was released so lately that a list of pods may be older. */
  protected wasJustReleased(key: string): boolean {
    const at = this.#released.get(key);
    return at !== undefined &&
      this.context.clock.nowMs() - at < RELEASE_MEMORY_MS;
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
