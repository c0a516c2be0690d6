import { concatenate, ErrorCode, Flag, Http2Error } from "./http2_frames.ts";

/**
 * The parts of a header block, from HEADERS to the CONTINUATION that ends it:
 * RFC 9113, section 4.3.
 */
export class HeaderBlock {
  readonly streamId: number;
  /** Whether the HEADERS frame had END_STREAM. */
  readonly endsStream: boolean;
  readonly #parts: Uint8Array[] = [];
  readonly #maxSize: number;
  #size = 0;

  constructor(
    { streamId, flags, maxSize }: {
      readonly streamId: number;
      readonly flags: number;
      readonly maxSize: number;
    },
  ) {
    this.streamId = streamId;
    this.endsStream = (flags & Flag.END_STREAM) !== 0;
    this.#maxSize = maxSize;
  }

  /**
   * Adds a part; returns the block when it is the last one.
   *
   * @throws {Http2Error} when there are too many
   */
  add(part: Uint8Array, flags: number): Uint8Array | undefined {
    this.#parts.push(part);
    this.#size += part.length + 1; // so that empty ones count as well
    if (this.#size > this.#maxSize) {
      throw new Http2Error("header too large", ErrorCode.ENHANCE_YOUR_CALM);
    }
    if (!(flags & Flag.END_HEADERS)) return undefined;
    const [only = part] = this.#parts;
    return this.#parts.length === 1 ? only : concatenate(this.#parts);
  }
}
