import { Buffer } from "node:buffer";
import { Duplex } from "node:stream";
import { FairShare } from "./fair_share.ts";
import { type ByteBudget, FrameGuard } from "./frame_guard.ts";
import { encodeEnhanceYourCalm } from "./frame_heads.ts";

const FIRST_READ_BYTES = 4 * 1024;
const MAX_READ_BYTES = 64 * 1024;
const EMPTY = new Uint8Array();

/**
 * A connection as node:http2 has it, with bounds that node:http2 does not have: the memory that requests take, frames
 * that bring no call forward, the part of the processor, and a peer that does not read.
 */
export class BoundedSocket extends Duplex {
  readonly #socket: Deno.UnixConn;
  readonly #guard: FrameGuard;
  readonly #share = new FairShare(() => performance.now());
  #readBytes = FIRST_READ_BYTES;
  #writing: Promise<void> = Promise.resolve();
  #writingSinceMs = Infinity;
  #quietSinceMs = performance.now();
  #pause: ReturnType<typeof setTimeout> | undefined;
  #notBeforeMs = 0;
  #isEnding = false;

  constructor(socket: Deno.UnixConn, budget: ByteBudget) {
    super({ allowHalfOpen: false });
    this.#socket = socket;
    this.#guard = new FrameGuard(budget, () => performance.now());
  }

  /** Whether the peer has said that it speaks HTTP/2. */
  get isEstablished(): boolean {
    return this.#guard.isEstablished;
  }

  /** How long no call has been under way. */
  get quietMs(): number {
    if (this.#guard.calls > 0) return 0;
    return performance.now() - this.#quietSinceMs;
  }

  /** How long the peer has not read what is sent. */
  get stalledMs(): number {
    return Math.max(0, performance.now() - this.#writingSinceMs);
  }

  override _read(): void {
    void this.#readNext();
  }

  override _write(
    bytes: Buffer,
    _encoding: string,
    done: (error?: Error | null) => void,
  ): void {
    this.#guard.sent(bytes);
    if (this.#guard.calls === 0) this.#quietSinceMs = performance.now();
    this.#send(bytes).then(() => done(), done);
  }

  override _final(done: (error?: Error | null) => void): void {
    // The peer may have gone already.
    void this.#writing.then(() => this.#socket.closeWrite())
      .catch(() => {}).then(() => done());
  }

  override _destroy(
    _error: Error | null,
    done: (error?: Error | null) => void,
  ): void {
    clearTimeout(this.#pause);
    this.#guard.close();
    this.#socket.close();
    // Whatever it is, the connection is of no use, and nobody else is concerned.
    done(null);
  }

  async #readNext(): Promise<void> {
    let buffer = EMPTY;
    let count: number | null;
    try {
      // A peer that does not read is not read from.
      await this.#writing;
      await this.#untilItsTurn();
      buffer = new Uint8Array(this.#readBytes);
      count = await this.#socket.read(buffer);
    } catch {
      this.destroy();
      return;
    }
    if (this.destroyed || this.#isEnding) return;
    if (count === null) {
      this.push(null);
      return;
    }
    this.#readBytes = count === buffer.length
      ? MAX_READ_BYTES
      : FIRST_READ_BYTES;
    this.#take(buffer.subarray(0, count));
  }

  #take(bytes: Uint8Array): void {
    const begun = this.#guard.received(bytes);
    if (begun === "too much") {
      this.#endCalmly();
      return;
    }
    for (let call = 0; call < begun; call++) this.#share.addCall();
    const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
    const pauseMs = this.#share.measure(() => this.push(buffer));
    this.#notBeforeMs = performance.now() + pauseMs;
  }

  /** Waits while the connection is ahead of its share. */
  async #untilItsTurn(): Promise<void> {
    const waitMs = this.#notBeforeMs - performance.now();
    if (waitMs <= 0) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#pause = setTimeout(resolve, waitMs);
    await promise;
  }

  /** Says why, and closes. */
  #endCalmly(): void {
    this.#isEnding = true;
    this.#send(encodeEnhanceYourCalm()).catch(() => {})
      .finally(() => this.destroy());
  }

  #send(bytes: Uint8Array): Promise<void> {
    const sending = this.#writing.then(() => this.#writeAll(bytes));
    this.#writing = sending.catch(() => {});
    return sending;
  }

  async #writeAll(bytes: Uint8Array): Promise<void> {
    this.#writingSinceMs = performance.now();
    try {
      for (let rest = bytes; rest.length > 0;) {
        rest = rest.subarray(await this.#socket.write(rest));
      }
    } finally {
      this.#writingSinceMs = Infinity;
    }
  }
}
