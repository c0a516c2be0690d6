import { concatenate } from "../../bytes/mod.ts";
import { HeaderBlocks, type Headers } from "../base/header_block.ts";
import { encodeHeaders, type HeaderField } from "../base/hpack.ts";
import {
  CONNECTION_PREFACE,
  decodeSettings,
  DEFAULT_MAX_FRAME_SIZE,
  DEFAULT_WINDOW,
  encodeFrame,
  encodeSettings,
  encodeUint32,
  Flag,
  type Frame,
  FrameReader,
  FrameType,
  Http2Error,
  MAX_WINDOW,
  readUint32,
  Setting,
  stripPadding,
} from "../base/http2_frames.ts";
import { frameMessage, MESSAGE_PREFIX } from "../base/message_frame.ts";
import {
  fromHttp2Code,
  parseResponseHeaders,
  type ResponseStatus,
} from "./response_status.ts";
import { GrpcError, StatusCode } from "../base/status.ts";

const STREAM = 1;
/** Answers larger than this are refused, as grpc-go does by default. */
const MAX_MESSAGE_SIZE = 4 * 1024 * 1024;
/** What a peer may send before we would have to grant it more. */
const RECEIVE_WINDOW = MAX_MESSAGE_SIZE + 65536;
/** A header block with its CONTINUATIONs. */
const MAX_HEADER_BLOCK = 256 * 1024;

const SETTINGS = encodeSettings([
  [Setting.HEADER_TABLE_SIZE, 0],
  [Setting.ENABLE_PUSH, 0],
  [Setting.INITIAL_WINDOW_SIZE, RECEIVE_WINDOW],
]);

/** One unary call. */
export interface UnaryRequest {
  /** `/package.Service/Method` */
  readonly method: string;
  readonly message: Uint8Array;
  /** Sent to the server as `grpc-timeout`. */
  readonly timeoutMs: number;
  /** Default "http": over a UNIX socket there is no TLS. */
  readonly scheme?: "http" | "https";
  /** Host and port that the server is addressed by. Default "localhost". */
  readonly authority?: string;
  /** More header fields; their names in lower case. */
  readonly metadata?: Readonly<Record<string, string>>;
}

/**
 * One unary gRPC call on an HTTP/2 connection of its own, without I/O: bytes
 * come in by `receive()`, those of `takeOutput()` are to be sent.
 *
 * Sources: RFC 9113; "gRPC over HTTP2" (PROTOCOL-HTTP2.md of grpc/grpc).
 */
export class UnaryExchange {
  readonly #frames = new FrameReader();
  readonly #headers = new HeaderBlocks(MAX_HEADER_BLOCK);
  #output: Uint8Array[] = [];
  /** What flow control has not let out yet. */
  #unsent: Uint8Array;
  #connectionWindow = DEFAULT_WINDOW;
  #streamWindow = DEFAULT_WINDOW;
  #initialWindow = DEFAULT_WINDOW;
  #maxFrameSize = DEFAULT_MAX_FRAME_SIZE;
  #settingsSeen = false;
  #status: ResponseStatus | undefined;
  #data: Uint8Array[] = [];
  #dataSize = 0;
  #response: Uint8Array | undefined;

  constructor(request: UnaryRequest) {
    this.#unsent = frameMessage(request.message);
    this.#output.push(
      new TextEncoder().encode(CONNECTION_PREFACE),
      encodeFrame(FrameType.SETTINGS, { payload: SETTINGS }),
      encodeFrame(FrameType.WINDOW_UPDATE, {
        payload: encodeUint32(RECEIVE_WINDOW - DEFAULT_WINDOW),
      }),
      encodeFrame(FrameType.HEADERS, {
        flags: Flag.END_HEADERS,
        streamId: STREAM,
        payload: encodeHeaders(requestHeaders(request)),
      }),
    );
    this.#sendData();
  }

  /** The answer, once it is there. */
  get response(): Uint8Array | undefined {
    return this.#response;
  }

  /** What is to be sent now; each byte comes once. */
  takeOutput(): Uint8Array {
    const output = this.#output;
    this.#output = [];
    return concatenate(output);
  }

  /**
   * Takes what the peer sent.
   *
   * @throws {GrpcError} when the call has failed
   */
  receive(bytes: Uint8Array): void {
    try {
      for (const frame of this.#frames.push(bytes)) {
        if (this.#response !== undefined) return;
        this.#handle(frame);
      }
    } catch (cause) {
      if (cause instanceof Http2Error || cause instanceof SyntaxError) {
        throw new GrpcError(`Cannot understand the peer: ${cause.message}`, {
          code: StatusCode.INTERNAL,
          cause,
        });
      }
      throw cause;
    }
  }

  #handle(frame: Frame): void {
    if (!this.#settingsSeen && frame.type !== FrameType.SETTINGS) {
      throw new Http2Error("it does not begin with SETTINGS: is this HTTP/2?");
    }
    this.#headers.check(frame);
    switch (frame.type) {
      case FrameType.SETTINGS:
        return this.#handleSettings(frame);
      case FrameType.HEADERS:
        return this.#handleHeaders(frame);
      case FrameType.CONTINUATION:
        return this.#handleBlock(this.#headers.continue(frame));
      case FrameType.DATA:
        return this.#handleData(frame);
      case FrameType.WINDOW_UPDATE:
        return this.#handleWindowUpdate(frame);
      case FrameType.PING:
        return this.#handlePing(frame);
      case FrameType.RST_STREAM:
        if (frame.streamId === STREAM) throw fromHttp2Code(codeOf(frame, 0));
        return;
      case FrameType.GOAWAY:
        return this.#handleGoAway(frame);
      case FrameType.PUSH_PROMISE:
        throw new Http2Error("PUSH_PROMISE, though we do not allow it");
      default: // PRIORITY and unknown types are to be ignored
        return;
    }
  }

  #handleSettings(frame: Frame): void {
    if (frame.streamId !== 0) throw new Http2Error("SETTINGS of a stream");
    if (frame.flags & Flag.ACK) return;
    this.#settingsSeen = true;
    for (const [identifier, value] of decodeSettings(frame.payload)) {
      if (identifier === Setting.INITIAL_WINDOW_SIZE) {
        if (value > MAX_WINDOW) throw new Http2Error("window too large");
        this.#streamWindow += value - this.#initialWindow;
        this.#initialWindow = value;
      } else if (identifier === Setting.MAX_FRAME_SIZE) {
        if (value < DEFAULT_MAX_FRAME_SIZE || value > 0xffffff) {
          throw new Http2Error(`MAX_FRAME_SIZE of ${value}`);
        }
        this.#maxFrameSize = value;
      }
    }
    this.#output.push(encodeFrame(FrameType.SETTINGS, { flags: Flag.ACK }));
    this.#sendData();
  }

  #handleWindowUpdate({ streamId, payload }: Frame): void {
    if (payload.length !== 4) throw new Http2Error("bad WINDOW_UPDATE");
    const increment = readUint32(payload, 0) & MAX_WINDOW;
    if (increment === 0) throw new Http2Error("WINDOW_UPDATE of 0");
    if (streamId === 0) this.#connectionWindow += increment;
    else if (streamId === STREAM) this.#streamWindow += increment;
    if (Math.max(this.#connectionWindow, this.#streamWindow) > MAX_WINDOW) {
      throw new Http2Error("window too large");
    }
    this.#sendData();
  }

  #handlePing({ flags, payload }: Frame): void {
    if (payload.length !== 8) throw new Http2Error("bad PING");
    if (flags & Flag.ACK) return;
    this.#output.push(
      encodeFrame(FrameType.PING, { flags: Flag.ACK, payload }),
    );
  }

  #handleGoAway(frame: Frame): void {
    if (frame.payload.length < 8) throw new Http2Error("bad GOAWAY");
    const lastStream = readUint32(frame.payload, 0) & MAX_WINDOW;
    // A stream that the peer has taken up is still answered.
    if (lastStream >= STREAM && codeOf(frame, 4) === 0) return;
    throw new GrpcError(
      `Server is going away, HTTP/2 error code ${codeOf(frame, 4)}`,
      { code: StatusCode.UNAVAILABLE },
    );
  }

  #handleHeaders(frame: Frame): void {
    if (frame.streamId !== STREAM) {
      throw new Http2Error("HEADERS of a stranger");
    }
    this.#handleBlock(this.#headers.begin(frame));
  }

  #handleBlock(headers: Headers | undefined): void {
    if (headers === undefined) return;
    this.#status = parseResponseHeaders(headers.fields, this.#status);
    if (headers.endsStream) this.#finish();
  }

  #handleData(frame: Frame): void {
    if (frame.streamId !== STREAM) throw new Http2Error("DATA of a stranger");
    if (this.#status === undefined) throw new Http2Error("DATA before HEADERS");
    const data = stripPadding(frame);
    this.#dataSize += frame.payload.length;
    // Empty ones count nothing: a flood of them must not fill the memory.
    if (data.length > 0) this.#data.push(data);
    if (this.#dataSize > RECEIVE_WINDOW || this.#saysItIsLarge()) {
      throw new GrpcError(`Answer larger than ${MAX_MESSAGE_SIZE} bytes`, {
        code: StatusCode.RESOURCE_EXHAUSTED,
      });
    }
    if (frame.flags & Flag.END_STREAM) this.#finish();
  }

  /** The length stands before the message. A peer that may not send all of it would wait for ever. */
  #saysItIsLarge(): boolean {
    const [first] = this.#data;
    if (first === undefined) return false;
    const start = first.length < MESSAGE_PREFIX
      ? concatenate(this.#data.slice(0, MESSAGE_PREFIX))
      : first;
    return start.length >= MESSAGE_PREFIX &&
      readUint32(start, 1) > MAX_MESSAGE_SIZE;
  }

  /** The stream has ended: with trailers, unless the peer is not a gRPC server. */
  #finish(): void {
    this.#status?.throwUnlessOk();
    const data = concatenate(this.#data);
    const length = data.length < MESSAGE_PREFIX ? -1 : readUint32(data, 1);
    if (data[0] === 1) throw new Http2Error("compressed answer");
    if (length !== data.length - MESSAGE_PREFIX) {
      throw new Http2Error("not exactly one message in the answer");
    }
    this.#response = data.subarray(MESSAGE_PREFIX);
  }

  /** Sends as much of the request as the peer's windows allow. */
  #sendData(): void {
    while (this.#unsent.length > 0) {
      const size = Math.min(
        this.#unsent.length,
        this.#maxFrameSize,
        this.#connectionWindow,
        this.#streamWindow,
      );
      if (size <= 0) return;
      const payload = this.#unsent.subarray(0, size);
      this.#unsent = this.#unsent.subarray(size);
      this.#connectionWindow -= size;
      this.#streamWindow -= size;
      this.#output.push(encodeFrame(FrameType.DATA, {
        flags: this.#unsent.length === 0 ? Flag.END_STREAM : 0,
        streamId: STREAM,
        payload,
      }));
    }
  }
}

function codeOf({ payload }: Frame, at: number): number {
  if (payload.length < at + 4) throw new Http2Error("frame without its code");
  return readUint32(payload, at);
}

function requestHeaders(request: UnaryRequest): HeaderField[] {
  return [
    [":method", "POST"],
    [":scheme", request.scheme ?? "http"],
    [":path", request.method],
    [":authority", request.authority ?? "localhost"],
    ["content-type", "application/grpc"],
    ["te", "trailers"],
    ["user-agent", "grpc-deno"],
    ["grpc-timeout", encodeTimeout(request.timeoutMs)],
    ...Object.entries(request.metadata ?? {}),
  ];
}

/** "gRPC over HTTP2": at most eight digits and a unit. */
function encodeTimeout(ms: number): string {
  const whole = Math.max(1, Math.ceil(ms));
  return whole < 1e8 ? `${whole}m` : `${Math.ceil(whole / 1000)}S`;
}
