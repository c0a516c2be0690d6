import { type AttachmentKey, keyText } from "../../cni/mod.ts";

/** The pool has no block left for this node. */
export class OutOfBlocksError extends Error {
  override readonly name: string = "OutOfBlocksError";
  readonly pool: string;
  /** The controller's reason. */
  readonly reason: string;
  /** Who else has the addresses, if that is why. */
  readonly overlap: string | undefined;

  constructor(
    pool: string,
    reason: string = "out of blocks",
    overlap?: string,
  ) {
    super(`Cannot get a block of pool "${pool}": ${reason}`);
    this.pool = pool;
    this.reason = reason;
    this.overlap = overlap;
  }
}

/** The pool is being deleted: it gives no more blocks. */
export class PoolDeletingError extends OutOfBlocksError {
  override readonly name: string = "PoolDeletingError";

  constructor(pool: string) {
    super(pool, "the pool is being deleted");
  }
}

/** The pool gives nothing as long as an admin has paused it. */
export class PoolPausedError extends OutOfBlocksError {
  override readonly name: string = "PoolPausedError";

  constructor(pool: string) {
    super(pool, "the pool is paused");
  }
}

/** The API server does not accept a block like this, however often it is asked. */
export class BlockRefusedError extends Error {
  override readonly name = "BlockRefusedError";
}

/** There is no pool of that name. */
export class PoolNotFoundError extends Error {
  override readonly name = "PoolNotFoundError";

  constructor(pool: string) {
    super(
      `Cannot get a block of pool "${pool}": the AddressPool does not exist`,
    );
  }
}

/** No block came in time. The same call later may succeed; `cause` is the last failure, if any. */
export class BlockTimeoutError extends Error {
  override readonly name = "BlockTimeoutError";
  readonly timeoutMs: number;

  constructor(pool: string, timeoutMs: number, options?: ErrorOptions) {
    super(
      `Cannot get a block of pool "${pool}": no answer within ${timeoutMs} ms`,
      options,
    );
    this.timeoutMs = timeoutMs;
  }
}

/** The attachment's earlier address is still being taken down. The same call later will succeed. */
export class ReleasePendingError extends Error {
  override readonly name = "ReleasePendingError";

  constructor(key: AttachmentKey, timeoutMs: number) {
    super(
      `Cannot allocate for "${keyText(key)}": ` +
        `its earlier address is still being released after ${timeoutMs} ms`,
    );
  }
}

/** The attachment uses an address of no block of this node. Only its deletion helps. */
export class QuarantinedError extends Error {
  override readonly name = "QuarantinedError";

  constructor(key: AttachmentKey) {
    super(
      `Cannot allocate for "${keyText(key)}": ` +
        "its address is in no block of this node",
    );
  }
}

/** The attachment was released while its allocation waited. */
export class ReleasedMeanwhileError extends Error {
  override readonly name = "ReleasedMeanwhileError";

  constructor(key: AttachmentKey) {
    super(
      `Cannot allocate for "${keyText(key)}": it was released before`,
    );
  }
}

/** The node's addresses are not known yet, or the daemon is ending. The same call later will succeed. */
export class IpamNotReadyError extends Error {
  override readonly name = "IpamNotReadyError";

  constructor(reason: string) {
    super(`Cannot allocate: ${reason}`);
  }
}
