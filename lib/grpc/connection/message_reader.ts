import { readUint32 } from "../base/http2_frames.ts";
import { MESSAGE_PREFIX } from "../base/message_frame.ts";
import { GrpcError, StatusCode } from "../base/status.ts";

/** Memory that all requests of a server share. */
export class ByteBudget {
  #free: number;

  constructor(bytes: number) {
    this.#free = bytes;
  }

  /** Takes that many bytes from the budget; false when it has fewer. */
  take(bytes: number): boolean {
    if (bytes > this.#free) return false;
    this.#free -= bytes;
    return true;
  }

  /** Gives bytes back. */
  give(bytes: number): void {
    this.#free += bytes;
  }
}

/** Limits of a {@linkcode MessageReader}. */
export interface MessageLimits {
  readonly maxSize: number;
  readonly budget: ByteBudget;
}

/**
 * Puts the messages of a stream together from its DATA. All that came counts
 * against the budget until disposal: the handler may still hold a message.
 */
export class MessageReader implements Disposable {
  readonly #limits: MessageLimits;
  #bytes: Uint8Array = new Uint8Array();
  #length = 0;
  #charged = 0;

  constructor(limits: MessageLimits) {
    this.#limits = limits;
  }

  /** Whether a message has begun and is not complete. */
  get isAmidst(): boolean {
    return this.#length > 0;
  }

  /**
   * Takes the next bytes, which must not change afterwards, and returns the
   * messages that they complete.
   *
   * @throws {GrpcError} when a message is compressed or too large
   */
  push(bytes: Uint8Array): Uint8Array[] {
    this.#append(bytes);
    const messages: Uint8Array[] = [];
    let at = 0;
    for (;;) {
      const end = this.#endOfMessage(at);
      if (end === undefined || end > this.#length) break;
      messages.push(this.#bytes.subarray(at + MESSAGE_PREFIX, end));
      at = end;
    }
    this.#length -= at;
    // The next bytes must not overwrite what was returned.
    if (at > 0) this.#bytes = this.#bytes.slice(at, at + this.#length);
    return messages;
  }

  [Symbol.dispose](): void {
    this.#limits.budget.give(this.#charged);
    this.#charged = this.#length = 0;
    this.#bytes = new Uint8Array();
  }

  #append(bytes: Uint8Array): void {
    const needed = this.#length + bytes.length;
    if (this.#length === 0) {
      this.#charge(bytes.length);
      this.#bytes = bytes;
    } else {
      if (needed > this.#bytes.length) this.#grow(needed);
      this.#bytes.set(bytes, this.#length);
    }
    this.#length = needed;
  }

  /** Doubles, so that a byte at a time is copied a few times only. */
  #grow(needed: number): void {
    const size = Math.max(needed, 2 * this.#bytes.length);
    this.#charge(size - this.#bytes.length);
    const bytes = new Uint8Array(size);
    bytes.set(this.#bytes.subarray(0, this.#length));
    this.#bytes = bytes;
  }

  #charge(size: number): void {
    if (!this.#limits.budget.take(size)) {
      throw new GrpcError("Requests under way are too large altogether", {
        code: StatusCode.RESOURCE_EXHAUSTED,
      });
    }
    this.#charged += size;
  }

  /** Where the message at `at` ends; undefined when its length is not known. */
  #endOfMessage(at: number): number | undefined {
    if (this.#length - at < MESSAGE_PREFIX) return undefined;
    if (this.#bytes[at] !== 0) {
      throw new GrpcError("Compressed messages are not supported", {
        code: StatusCode.UNIMPLEMENTED,
      });
    }
    const size = readUint32(this.#bytes, at + 1);
    const { maxSize } = this.#limits;
    if (size > maxSize) {
      throw new GrpcError(
        `Message of ${size} bytes, where ${maxSize} are allowed`,
        { code: StatusCode.RESOURCE_EXHAUSTED },
      );
    }
    return at + MESSAGE_PREFIX + size;
  }
}
