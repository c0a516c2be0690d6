import { concatenate } from "../../bytes/mod.ts";
import { flowControlError } from "../base/frame_checks.ts";
import {
  DEFAULT_MAX_FRAME_SIZE,
  DEFAULT_WINDOW,
  encodeFrame,
  encodeSettings,
  encodeUint32,
  ErrorCode,
  Flag,
  FrameType,
  MAX_WINDOW,
  Setting,
} from "../base/http2_frames.ts";
import { frameMessage } from "../base/message_frame.ts";
import type { GrpcError } from "../base/status.ts";
import { MAX_HEADER_LIST_SIZE } from "./request_head.ts";
import {
  encodeTrailers,
  encodeTrailersOnly,
  RESPONSE_HEAD,
} from "./response_head.ts";
import { type ServerStream, STREAM_WINDOW } from "./server_stream.ts";

/** What a peer may have under way on one connection. */
export const MAX_STREAMS: number = 128;

/** What a peer may send on a connection before it is granted more. */
export const CONNECTION_WINDOW: number = 1024 * 1024;

/** The first that a server sends: RFC 9113, section 3.4. */
const OPENING = concatenate([
  encodeFrame(FrameType.SETTINGS, {
    payload: encodeSettings([
      [Setting.MAX_CONCURRENT_STREAMS, MAX_STREAMS],
      [Setting.INITIAL_WINDOW_SIZE, STREAM_WINDOW],
      [Setting.MAX_HEADER_LIST_SIZE, MAX_HEADER_LIST_SIZE],
    ]),
  }),
  encodeFrame(FrameType.WINDOW_UPDATE, {
    payload: encodeUint32(CONNECTION_WINDOW - DEFAULT_WINDOW),
  }),
]);

const NOTHING = new Uint8Array();

/** Output of a connection, as far as the peer's windows allow. */
export class ConnectionOutput {
  #parts: Uint8Array[] = [OPENING];
  #size = OPENING.length;
  #window = DEFAULT_WINDOW;
  /** Streams that wait for a window. */
  readonly #stalled = new Set<ServerStream>();

  /** How much has not been taken. */
  get size(): number {
    return this.#size;
  }

  /** That, and what waits for a window. */
  get heldBytes(): number {
    const stalled = this.#stalled.values();
    return stalled.reduce((sum, s) => sum + s.unsentBytes, this.#size);
  }

  /** All of it, at once: each byte comes once. */
  take(): Uint8Array {
    const [only = NOTHING] = this.#parts;
    const output = this.#parts.length > 1 ? concatenate(this.#parts) : only;
    this.#parts = [];
    this.#size = 0;
    return output;
  }

  /** A frame that is not subject to flow control. */
  frame(...[type, options]: Parameters<typeof encodeFrame>): void {
    const bytes = encodeFrame(type, options);
    this.#parts.push(bytes);
    this.#size += bytes.length;
  }

  /** Grants the peer as many bytes again; 0 is the connection. */
  grant(streamId: number, bytes: number): void {
    if (bytes === 0) return;
    const payload = encodeUint32(bytes);
    this.frame(FrameType.WINDOW_UPDATE, { streamId, payload });
  }

  message(stream: ServerStream, message: Uint8Array): void {
    stream.queue(frameMessage(message));
    this.flush(stream);
  }

  /** Ends a stream once its messages are out. */
  status(stream: ServerStream, error: GrpcError | undefined): void {
    stream.trailers = stream.hasHead || stream.unsentBytes > 0
      ? encodeTrailers(error)
      : encodeTrailersOnly(error);
    this.flush(stream);
  }

  /** Ends a stream with this header block alone. */
  headersOnly(stream: ServerStream, block: Uint8Array): void {
    stream.trailers = block;
    this.flush(stream);
  }

  reset(stream: ServerStream, code: number): void {
    this.resetId(stream.id, code);
    this.drop(stream);
  }

  resetId(streamId: number, code: number): void {
    const payload = encodeUint32(code);
    this.frame(FrameType.RST_STREAM, { streamId, payload });
  }

  /** The stream is gone. */
  drop(stream: ServerStream): void {
    stream.close();
    this.#stalled.delete(stream);
  }

  goAway(lastStreamId: number, error: { code: number; message: string }): void {
    const payload = concatenate([
      encodeUint32(lastStreamId),
      encodeUint32(error.code),
      new TextEncoder().encode(error.message),
    ]);
    this.frame(FrameType.GOAWAY, { payload });
  }

  /**
   * The peer takes more on the connection. Returns the streams that waited.
   *
   * @throws {Http2Error} when the window becomes too large
   */
  grow(increment: number): ServerStream[] {
    this.#window += increment;
    if (this.#window > MAX_WINDOW) throw flowControlError();
    const waited = [...this.#stalled];
    for (const stream of waited) this.flush(stream);
    return waited;
  }

  /** Sends what the windows let out. */
  flush(stream: ServerStream): void {
    if (stream.isClosed) return;
    const streamId = stream.id;
    if (stream.unsentBytes > 0 && !stream.hasHead) {
      stream.hasHead = true;
      this.#headers(streamId, RESPONSE_HEAD, 0);
    }
    while (stream.unsentBytes > 0) {
      const size = Math.min(
        DEFAULT_MAX_FRAME_SIZE,
        this.#window,
        stream.sendWindow,
      );
      if (size <= 0) {
        this.#stalled.add(stream);
        return;
      }
      const payload = stream.take(size);
      this.#window -= payload.length;
      this.frame(FrameType.DATA, { streamId, payload });
    }
    this.#stalled.delete(stream);
    if (stream.trailers === undefined) return;
    this.#headers(streamId, stream.trailers, Flag.END_STREAM);
    // RFC 9113, section 8.1: the rest of the request is of no interest.
    if (!stream.isRemoteClosed) this.resetId(streamId, ErrorCode.NO_ERROR);
    stream.close();
  }

  #headers(streamId: number, block: Uint8Array, flags: number): void {
    let rest = block;
    let type: number = FrameType.HEADERS;
    let isLast: boolean;
    do {
      const payload = rest.subarray(0, DEFAULT_MAX_FRAME_SIZE);
      rest = rest.subarray(payload.length);
      isLast = rest.length === 0;
      this.frame(type, {
        flags: (type === FrameType.HEADERS ? flags : 0) |
          (isLast ? Flag.END_HEADERS : 0),
        streamId,
        payload,
      });
      type = FrameType.CONTINUATION;
    } while (!isLast);
  }
}
