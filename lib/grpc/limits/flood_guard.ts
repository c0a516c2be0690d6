import { ErrorCode, Http2Error } from "../base/http2_frames.ts";

const WINDOW_MS = 10_000;
/** In a window; keepalive and flow control need a few for each call. */
const MAX_UNPRODUCTIVE = 2_000;

/**
 * Counts frames that ask for work and bring no call forward: PING, SETTINGS,
 * streams that are reset. RFC 9113, section 10.5.
 */
export class FloodGuard {
  readonly #now: () => number;
  #since: number;
  #count = 0;

  /** `now` is a clock in milliseconds. */
  constructor(now: () => number) {
    this.#now = now;
    this.#since = now();
  }

  /** @throws {Http2Error} when there are too many of them */
  count(): void {
    if (++this.#count <= MAX_UNPRODUCTIVE) return;
    const now = this.#now();
    if (now - this.#since < WINDOW_MS) {
      throw new Http2Error("too many frames", ErrorCode.ENHANCE_YOUR_CALM);
    }
    this.#since = now;
    this.#count = 1;
  }

  /** A call was answered, to which some such frames belong. */
  forgive(): void {
    this.#count = Math.max(0, this.#count - 8);
  }
}
