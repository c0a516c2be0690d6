import type { AttachmentKey } from "../../cni/mod.ts";
import type {
  Address,
  AddressRange,
  DualStack,
  Prefix,
} from "../../inet/mod.ts";

/** One AddressBlock of this node, as the API server has it. */
export interface BlockInfo {
  readonly name: string;
  readonly pool: string;
  /** Identity of the object: a block that was deleted and made again is another one. */
  readonly uid: string;
  /** Position of the block in its pool, from 0. */
  readonly index: number;
  readonly prefixes: DualStack<Prefix>;
  /** Whether the block was taken over from Coil v1: nothing is handed out of it, and it is not returned. */
  readonly reserved: boolean;
  /** Whether the block has a deletion timestamp. */
  readonly deleting: boolean;
}

/** State of a pool in the cache; `low`: it has few blocks left; `ample`: so many that empty ones are not missed. */
export type PoolState =
  | "unknown"
  | "absent"
  | "deleting"
  | "paused"
  | "low"
  | "ready"
  | "ample";

/** An operation that can be cancelled. */
export interface SignalOptions {
  readonly signal: AbortSignal;
}

/** How much a request is for. */
export interface RequestOptions extends SignalOptions {
  /** How many addresses are wanted now; a source may give more, and fewer. */
  readonly wanted: number;
}

/** The API server's side of the node's blocks. The role implements it. */
export interface BlockSource {
  /** Lists the blocks of this node in all pools, live: no cache may answer. */
  list(options: SignalOptions): Promise<BlockInfo[]>;
  /**
   * Gets more of a pool for this node: one block at least, however many that `wanted` addresses need.
   *
   * One call per pool is under way at a time. Any error not named here is taken as passing.
   *
   * @throws {OutOfBlocksError} when the pool has no block left
   * @throws {PoolNotFoundError} when there is no such pool
   */
  request(pool: string, options: RequestOptions): Promise<readonly BlockInfo[]>;
  /**
   * Gives blocks of one {@linkcode BlockSource.releaseGroup} back for good. Idempotent: a block that is gone, or whose
   * name has another UID, is success. After a failure any of them may be gone.
   */
  release(blocks: readonly BlockInfo[], options: SignalOptions): Promise<void>;
  /** Names those that may go back together, by one call at a time. Default: each block by itself. */
  releaseGroup?(block: BlockInfo): string;
  /** Returns what is known of a pool, without waiting. */
  poolState(pool: string): PoolState;
  /** Which addresses of a pool are never given; answers at once. */
  reserved(pool: string): readonly AddressRange[];
}

/** A node's addresses of a pool; a dual-stack pair counts as one. */
export interface PoolRoom {
  readonly pool: string;
  /** Size of the lowest block; 0 when there is none. */
  readonly blockSize: number;
  /** Those that can be given now, or, as things look, in a moment. */
  readonly free: number;
  /** Those that attachments hold. */
  readonly held: number;
  /** How many allocations wait for one. */
  readonly waiting: number;
}

/** A block without held and resting addresses. */
export interface EmptyBlock {
  readonly info: BlockInfo;
  readonly size: number;
  readonly freeCount: number;
}

/** Decides how much a node keeps in store. Pure: it is asked at every look at the blocks. */
export interface Stock {
  /** Pools that are kept in store although the node has no block of them. Default: none. */
  readonly pools?: readonly string[];
  /** How many addresses the store lacks, besides those that allocations wait for. */
  short(room: PoolRoom): number;
  /** Whether an empty block may go; `room` has it still. Blocks are asked about from the highest index down. */
  isSpare(block: EmptyBlock, room: PoolRoom): boolean;
}

/** The export table, from which routing daemons learn the node's prefixes. */
export interface RouteSink {
  /** Makes the table hold exactly these prefixes. Idempotent. */
  sync(prefixes: readonly Prefix[]): Promise<void>;
}

/** The kernel's routes to pods, also those that coild has no record of. */
export interface RouteView {
  /** Lists the addresses within the prefixes that the host routes to any interface, Coil's or not. */
  routedWithin(prefixes: readonly Prefix[]): Promise<readonly Address[]>;
}

/** A pod interface found in the kernel. */
export interface KernelPod extends AttachmentKey {
  readonly pool: string;
  /** Empty when the interface was left half-made. */
  readonly addresses: DualStack<Address>;
  /** Whether the interface is already cut off and waits for its removal. */
  readonly husk?: boolean;
}

/**
 * What becomes of an address that rests after use when the pool has no other: `preferred`: it is given all the same;
 * `strict`: never before its time is up, the allocation waits.
 */
export type Rest = "preferred" | "strict";

/** An address that rested when an earlier process ended. */
export interface RestingAddress {
  readonly address: Address;
  /** How long it had rested by now. */
  readonly restedMs: number;
}

/** How one request for a block ended. */
export type RequestOutcome =
  | "granted"
  | "out-of-blocks"
  | "pool-not-found"
  | "unusable"
  | "error";

/** Receives what metrics are made of. Must not throw. */
export interface IpamObserver {
  /** One call of {@linkcode BlockSource.request} ended. */
  blockRequested?(
    event: {
      readonly pool: string;
      readonly outcome: RequestOutcome;
      readonly seconds: number;
    },
  ): void;
  /** One attempt to give a block back ended. */
  blockReturned?(
    event: {
      readonly pool: string;
      readonly block: string;
      readonly ok: boolean;
    },
  ): void;
  /** One {@linkcode NodeIpam.allocate} ended; `seconds` is near zero unless it waited. */
  allocated?(
    event: {
      readonly pool: string;
      readonly ok: boolean;
      readonly seconds: number;
    },
  ): void;
}
