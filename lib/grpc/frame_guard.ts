import { type FrameHead, FrameHeads, FrameType } from "./frame_heads.ts";

/** "PRI * HTTP/2.0" and so on: RFC 9113, section 3.4. */
const PREFACE_BYTES = 24;

const WINDOW_MS = 10_000;
/** In a window; below the 1,000 after which node:http2 ends a connection with another code. */
const MAX_RESETS = 500;
/** In a window; keepalive and flow control need a few for each call. */
const MAX_UNPRODUCTIVE = 2_000;
/** So many of them belong to a call. */
const PER_CALL = 8;

/** Memory that the requests under way on all connections share. */
export class ByteBudget {
  #free: number;

  constructor(bytes: number) {
    this.#free = bytes;
  }

  /** Takes so many bytes; false when there are not as many. */
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

/**
 * Looks at the heads of the frames of one connection, in both directions: which calls are under way, what memory their
 * requests take, and whether the peer makes work that brings no call forward (RFC 9113, section 10.5).
 */
export class FrameGuard {
  readonly #budget: ByteBudget;
  readonly #nowMs: () => number;
  readonly #input = new FrameHeads(PREFACE_BYTES);
  readonly #output = new FrameHeads();
  /** Bytes of the request of each call that has not been answered. */
  readonly #requests = new Map<number, number>();
  #lastStreamId = 0;
  #sinceMs: number;
  #resets = 0;
  #unproductive = 0;
  #isEstablished = false;

  /** `nowMs` is a clock that only goes forward. */
  constructor(budget: ByteBudget, nowMs: () => number) {
    this.#budget = budget;
    this.#nowMs = nowMs;
    this.#sinceMs = nowMs();
  }

  /** Whether the peer has said that it speaks HTTP/2. */
  get isEstablished(): boolean {
    return this.#isEstablished;
  }

  /** How many calls have not been answered. */
  get calls(): number {
    return this.#requests.size;
  }

  /** Takes what the peer sent; returns how many calls began, or "too much" when the connection is to be ended. */
  received(bytes: Uint8Array): number | "too much" {
    let begun = 0;
    for (const head of this.#input.push(bytes)) {
      const { type, streamId } = head;
      if (type === FrameType.SETTINGS) this.#isEstablished = true;
      if (type === FrameType.HEADERS && streamId > this.#lastStreamId) {
        this.#lastStreamId = streamId;
        this.#requests.set(streamId, 0);
        begun++;
      }
      if (!this.#isFine(head)) return "too much";
    }
    return begun;
  }

  /** Takes what is sent to the peer. */
  sent(bytes: Uint8Array): void {
    for (const { type, streamId, endsStream } of this.#output.push(bytes)) {
      if (!endsStream && type !== FrameType.RST_STREAM) continue;
      this.#end(streamId);
      if (endsStream) {
        this.#unproductive = Math.max(0, this.#unproductive - PER_CALL);
      }
    }
  }

  /** Gives back what the calls took. */
  close(): void {
    for (const id of [...this.#requests.keys()]) this.#end(id);
  }

  #isFine({ type, length, streamId, endsStream }: FrameHead): boolean {
    if (type === FrameType.RST_STREAM) {
      this.#end(streamId);
      return this.#count() && ++this.#resets <= MAX_RESETS;
    }
    const isEmpty = type === FrameType.DATA && length === 0 && !endsStream;
    const isUnproductive = isEmpty || type === FrameType.PING ||
      type === FrameType.SETTINGS;
    if (isUnproductive) {
      return this.#count() && ++this.#unproductive <= MAX_UNPRODUCTIVE;
    }
    const held = this.#requests.get(streamId);
    if (type !== FrameType.DATA || held === undefined) return true;
    if (!this.#budget.take(length)) return false;
    this.#requests.set(streamId, held + length);
    return true;
  }

  /** Begins a new window when the last is over. */
  #count(): true {
    const nowMs = this.#nowMs();
    if (nowMs - this.#sinceMs >= WINDOW_MS) {
      this.#sinceMs = nowMs;
      this.#resets = this.#unproductive = 0;
    }
    return true;
  }

  #end(streamId: number): void {
    this.#budget.give(this.#requests.get(streamId) ?? 0);
    this.#requests.delete(streamId);
  }
}
