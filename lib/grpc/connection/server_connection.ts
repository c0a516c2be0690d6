import { HeaderBlocks, type Headers } from "../base/header_block.ts";
import {
  expectSize,
  expectStream,
  flowControlError,
  toHttp2Error,
} from "../base/frame_checks.ts";
import {
  decodeSettings,
  DEFAULT_MAX_FRAME_SIZE,
  DEFAULT_WINDOW,
  ErrorCode,
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
import { GrpcError, StatusCode } from "../base/status.ts";
import type { ConnectionEvent } from "./connection_event.ts";
import {
  CONNECTION_WINDOW,
  ConnectionOutput,
  MAX_STREAMS,
} from "./connection_output.ts";
import { FloodGuard } from "../limits/flood_guard.ts";
import type { MessageLimits } from "./message_reader.ts";
import { Preface } from "./preface.ts";
import { ReceiveWindow } from "./receive_window.ts";
import {
  MalformedRequest,
  parseRequestHead,
  RefusedRequest,
} from "./request_head.ts";
import { encodeTrailersOnly } from "./response_head.ts";
import { ServerStream } from "./server_stream.ts";

/** A header block with its CONTINUATIONs. */
const MAX_HEADER_BLOCK = 64 * 1024;

/** Answers that wait for the peer to read. */
const MAX_UNSENT = 128 * 1024;

/**
 * The server's side of an HTTP/2 connection that carries gRPC calls, without
 * I/O: bytes come in by `receive()`, those of `takeOutput()` are to be sent.
 * Each call that it announces is to be answered by `end()`, unless it is
 * cancelled, and given back by `release()`.
 *
 * A peer that breaks the protocol gets GOAWAY, and nothing that it sends
 * afterwards counts. Sources: RFC 9113; "gRPC over HTTP2" (PROTOCOL-HTTP2.md
 * of grpc/grpc).
 */
export class ServerConnection {
  readonly #limits: MessageLimits;
  readonly #guard: FloodGuard;
  readonly #preface = new Preface();
  readonly #frames = new FrameReader();
  readonly #headers = new HeaderBlocks(MAX_HEADER_BLOCK);
  readonly #output = new ConnectionOutput();
  readonly #window = new ReceiveWindow(CONNECTION_WINDOW);
  readonly #streams = new Map<number, ServerStream>();
  #events: ConnectionEvent[] = [];
  #settingsSeen = false;
  #lastStreamId = 0;
  /** What the peer grants each new stream. */
  #initialWindow = DEFAULT_WINDOW;
  #isGoingAway = false;
  #failure: Http2Error | undefined;

  constructor(options: MessageLimits & { readonly now: () => number }) {
    this.#limits = options;
    this.#guard = new FloodGuard(options.now);
  }

  /** How the peer broke the protocol. */
  get failure(): Http2Error | undefined {
    return this.#failure;
  }

  /** Whether the peer has shown that it speaks HTTP/2. */
  get isEstablished(): boolean {
    return this.#settingsSeen;
  }

  /** Nothing is left to do, once the output is sent. */
  get isFinished(): boolean {
    return this.#failure !== undefined ||
      (this.#isGoingAway && this.#streams.size === 0);
  }

  /** How much of the output has not been taken. */
  get outputBytes(): number {
    return this.#output.size;
  }

  /** What is to be sent now; each byte comes once. */
  takeOutput(): Uint8Array {
    return this.#output.take();
  }

  /** Takes what the peer sent. */
  receive(bytes: Uint8Array): ConnectionEvent[] {
    try {
      if (this.#failure === undefined) this.#receive(bytes);
    } catch (error) {
      this.#fail(toHttp2Error(error));
    }
    const events = this.#events;
    this.#events = [];
    return events;
  }

  /**
   * Sends a message of a call; returns whether there is one that has not ended.
   * A call whose caller keeps asking without reading is ended.
   */
  send(streamId: number, message: Uint8Array): boolean {
    const stream = this.#streams.get(streamId);
    if (stream === undefined || stream.isAnswered) return false;
    if (this.#output.heldBytes > MAX_UNSENT) {
      this.#cancel(stream, ErrorCode.ENHANCE_YOUR_CALM);
      return false;
    }
    this.#output.message(stream, message);
    // A caller that resets its calls gets no answers: only answers pay for what came with them.
    this.#guard.forgive();
    return true;
  }

  /** Answers a call for good: with an error, or well. */
  end(streamId: number, error?: GrpcError): void {
    const stream = this.#streams.get(streamId);
    if (stream === undefined || stream.isAnswered) return;
    this.#output.status(stream, error);
    this.#forgetIfDone(stream);
  }

  /** The handler of a call has ended: the call makes room for another. */
  release(streamId: number): void {
    const stream = this.#streams.get(streamId);
    if (stream === undefined) return;
    stream.isReleased = true;
    this.#forgetIfDone(stream);
  }

  /** Takes no new calls; those under way may finish. */
  goAway(): void {
    if (this.#isGoingAway) return;
    this.#isGoingAway = true;
    this.#output.goAway(this.#lastStreamId, {
      code: ErrorCode.NO_ERROR,
      message: "",
    });
  }

  /** Gives up the answers that the peer grants no window for. */
  dropStalled(): void {
    for (const stream of [...this.#streams.values()]) {
      if (stream.unsentBytes === 0) continue;
      this.#output.reset(stream, ErrorCode.CANCEL);
      this.#forgetIfDone(stream);
    }
  }

  #receive(bytes: Uint8Array): void {
    const rest = this.#preface.skip(bytes);
    for (const frame of this.#frames.frames(rest)) this.#handle(frame);
  }

  #fail(error: Http2Error): void {
    this.#failure = error;
    this.#output.goAway(this.#lastStreamId, error);
    for (const stream of this.#streams.values()) stream[Symbol.dispose]();
    this.#streams.clear();
  }

  #handle(frame: Frame): void {
    if (!this.#settingsSeen && frame.type !== FrameType.SETTINGS) {
      throw new Http2Error("it does not begin with SETTINGS");
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
        return this.#handleReset(frame);
      case FrameType.GOAWAY:
        return expectStream(frame, { isConnection: true });
      case FrameType.PUSH_PROMISE:
        throw new Http2Error("PUSH_PROMISE of a client");
      default: // PRIORITY and unknown types are to be ignored
        return this.#guard.count();
    }
  }

  #handleSettings(frame: Frame): void {
    const { flags, payload } = frame;
    expectStream(frame, { isConnection: true });
    this.#guard.count();
    if (flags & Flag.ACK) return expectSize(frame, 0);
    this.#settingsSeen = true;
    for (const [identifier, value] of decodeSettings(payload)) {
      if (identifier === Setting.INITIAL_WINDOW_SIZE) this.#setWindow(value);
      const isBad = identifier === Setting.MAX_FRAME_SIZE
        ? value < DEFAULT_MAX_FRAME_SIZE || value > 0xffffff
        : identifier === Setting.ENABLE_PUSH && value > 1;
      if (isBad) throw new Http2Error(`setting ${identifier} of ${value}`);
    }
    this.#output.frame(FrameType.SETTINGS, { flags: Flag.ACK });
  }

  /** RFC 9113, section 6.9.2: it changes the windows of open streams too. */
  #setWindow(value: number): void {
    if (value > MAX_WINDOW) {
      throw flowControlError();
    }
    for (const stream of [...this.#streams.values()]) {
      stream.grow(value - this.#initialWindow);
      this.#resume(stream);
    }
    this.#initialWindow = value;
  }

  #handleWindowUpdate(frame: Frame): void {
    const { streamId, payload } = frame;
    expectSize(frame, 4);
    this.#guard.count();
    const increment = readUint32(payload, 0) & MAX_WINDOW;
    if (streamId === 0) {
      if (increment === 0) throw new Http2Error("WINDOW_UPDATE of 0");
      for (const stream of this.#output.grow(increment)) this.#resume(stream);
      return;
    }
    const stream = this.#knownStream(streamId);
    if (stream === undefined || stream.isClosed) return;
    if (increment === 0) return this.#cancel(stream, ErrorCode.PROTOCOL_ERROR);
    try {
      stream.grow(increment);
    } catch (error) {
      return this.#cancel(stream, toHttp2Error(error).code);
    }
    this.#resume(stream);
  }

  #handlePing(frame: Frame): void {
    const { flags, payload } = frame;
    expectStream(frame, { isConnection: true });
    expectSize(frame, 8);
    this.#guard.count();
    if (flags & Flag.ACK) return;
    this.#output.frame(FrameType.PING, { flags: Flag.ACK, payload });
  }

  #handleReset(frame: Frame): void {
    expectStream(frame, { isConnection: false });
    expectSize(frame, 4);
    this.#guard.count();
    const stream = this.#knownStream(frame.streamId);
    if (stream !== undefined && !stream.isClosed) this.#drop(stream);
  }

  #handleHeaders(frame: Frame): void {
    const { streamId } = frame;
    if (streamId % 2 === 0) throw new Http2Error(`HEADERS of ${streamId}`);
    this.#handleBlock(this.#headers.begin(frame));
  }

  #handleBlock(headers: Headers | undefined): void {
    if (headers === undefined) return;
    if (headers.streamId > this.#lastStreamId) this.#open(headers);
    else this.#endByTrailers(headers);
  }

  #open({ streamId, endsStream, fields }: Headers): void {
    this.#lastStreamId = streamId;
    if (this.#isGoingAway || this.#streams.size >= MAX_STREAMS) {
      this.#guard.count();
      this.#output.resetId(streamId, ErrorCode.REFUSED_STREAM);
      return;
    }
    const sendWindow = this.#initialWindow;
    const stream = new ServerStream(streamId, { ...this.#limits, sendWindow });
    stream.isRemoteClosed = endsStream;
    try {
      const head = parseRequestHead(fields);
      this.#streams.set(streamId, stream);
      this.#events.push({ type: "call", streamId, ...head });
      if (endsStream) this.#events.push({ type: "halfClose", streamId });
    } catch (error) {
      this.#guard.count();
      this.#refuse(stream, error);
    }
  }

  #refuse(stream: ServerStream, error: unknown): void {
    if (error instanceof RefusedRequest) {
      const { status, httpStatus } = error;
      const block = encodeTrailersOnly(status, httpStatus);
      this.#output.headersOnly(stream, block);
    } else if (error instanceof MalformedRequest) {
      this.#output.reset(stream, ErrorCode.PROTOCOL_ERROR);
    } else throw error;
  }

  #endByTrailers({ streamId, endsStream }: Headers): void {
    const stream = this.#streams.get(streamId);
    if (stream === undefined || stream.isClosed) return this.#guard.count();
    if (stream.isRemoteClosed) {
      return this.#cancel(stream, ErrorCode.STREAM_CLOSED);
    }
    if (!endsStream) return this.#cancel(stream, ErrorCode.PROTOCOL_ERROR);
    this.#halfClose(stream);
  }

  #handleData(frame: Frame): void {
    expectStream(frame, { isConnection: false });
    const { streamId, payload, flags } = frame;
    this.#output.grant(0, this.#window.receive(payload.length));
    const data = stripPadding(frame);
    const isLast = (flags & Flag.END_STREAM) !== 0;
    if (data.length === 0 && !isLast) this.#guard.count();
    const stream = this.#knownStream(streamId);
    if (stream === undefined || stream.isAnswered) return this.#guard.count();
    if (stream.isRemoteClosed) {
      return this.#cancel(stream, ErrorCode.STREAM_CLOSED);
    }
    try {
      const grant = stream.receive(payload.length);
      if (!isLast) this.#output.grant(streamId, grant);
      if (data.length > 0) this.#readMessages(stream, data);
      if (isLast) this.#halfClose(stream);
    } catch (error) {
      if (error instanceof GrpcError) this.#giveUp(stream, error);
      else this.#cancel(stream, toHttp2Error(error).code);
    }
  }

  #readMessages(stream: ServerStream, data: Uint8Array): void {
    const streamId = stream.id;
    for (const message of stream.reader.push(data)) {
      this.#events.push({ type: "message", streamId, message });
    }
  }

  #halfClose(stream: ServerStream): void {
    stream.isRemoteClosed = true;
    if (stream.reader.isAmidst) {
      const code = StatusCode.INTERNAL;
      return this.#giveUp(stream, new GrpcError("Message cut short", { code }));
    }
    if (stream.isAnswered) return;
    this.#events.push({ type: "halfClose", streamId: stream.id });
  }

  /** Answers a call in place of its handler. */
  #giveUp(stream: ServerStream, error: GrpcError): void {
    this.#guard.count();
    stream.discard();
    this.#output.status(stream, error);
    this.#drop(stream);
  }

  /** Resets a stream: counted as if the peer had done so, since the peer may see to it that it happens. */
  #cancel(stream: ServerStream, code: number): void {
    this.#guard.count();
    this.#output.resetId(stream.id, code);
    this.#drop(stream);
  }

  #drop(stream: ServerStream): void {
    this.#output.drop(stream);
    const { isReleased, id: streamId } = stream;
    if (!isReleased) this.#events.push({ type: "cancel", streamId });
    this.#forgetIfDone(stream);
  }

  #resume(stream: ServerStream): void {
    this.#output.flush(stream);
    this.#forgetIfDone(stream);
  }

  #forgetIfDone(stream: ServerStream): void {
    if (!stream.isClosed || !stream.isReleased) return;
    this.#streams.delete(stream.id);
    stream[Symbol.dispose]();
  }

  /** A stream that was opened, unless it is forgotten. */
  #knownStream(streamId: number): ServerStream | undefined {
    if (streamId % 2 === 0 || streamId > this.#lastStreamId) {
      throw new Http2Error(`stream ${streamId} is idle`);
    }
    return this.#streams.get(streamId);
  }
}
