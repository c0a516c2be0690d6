import { concatenate } from "../../bytes/mod.ts";
import { type HeaderField, HpackDecoder } from "./hpack.ts";
import {
  ErrorCode,
  Flag,
  type Frame,
  FrameType,
  Http2Error,
  stripPadding,
} from "./http2_frames.ts";

/**
 * The parts of a header block, from HEADERS to the CONTINUATION that ends it:
 * RFC 9113, section 4.3.
 */
class HeaderBlock {
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

/** The fields of a whole header block. */
export interface Headers {
  readonly streamId: number;
  /** Whether the HEADERS frame had END_STREAM. */
  readonly endsStream: boolean;
  readonly fields: HeaderField[];
}

/** The header blocks that a peer sends on one connection. */
export class HeaderBlocks {
  readonly #hpack = new HpackDecoder();
  readonly #maxSize: number;
  /** A block that is not at its end. */
  #open: HeaderBlock | undefined;

  /** @param maxSize of a block with its CONTINUATIONs, in bytes */
  constructor(maxSize: number) {
    this.#maxSize = maxSize;
  }

  /** @throws {Http2Error} when the frame may not come now: nothing may come amid a block */
  check({ type }: Frame): void {
    const isAmid = this.#open !== undefined;
    if (isAmid === (type === FrameType.CONTINUATION)) return;
    throw new Http2Error("header block interrupted");
  }

  /**
   * Takes HEADERS; returns what they say unless CONTINUATIONs follow.
   *
   * @throws {Http2Error} when they are too large
   * @throws {SyntaxError} when they cannot be decoded
   */
  begin(frame: Frame): Headers | undefined {
    const { streamId, flags } = frame;
    const maxSize = this.#maxSize;
    this.#open = new HeaderBlock({ streamId, flags, maxSize });
    return this.#add(stripPadding(frame), frame);
  }

  /** Takes a CONTINUATION, as `begin()`. */
  continue(frame: Frame): Headers | undefined {
    return this.#add(frame.payload, frame);
  }

  #add(part: Uint8Array, { flags, streamId }: Frame): Headers | undefined {
    const block = this.#open;
    if (block?.streamId !== streamId) {
      throw new Http2Error("CONTINUATION of another stream");
    }
    const whole = block.add(part, flags);
    if (whole === undefined) return undefined;
    this.#open = undefined;
    // Decoded in any case: later blocks build on it.
    const fields = this.#hpack.decode(whole);
    return { streamId, endsStream: block.endsStream, fields };
  }
}
