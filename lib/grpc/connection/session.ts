import { isDisconnect } from "../base/disconnect.ts";
import { type Mutex, sleep, startTimer, writeAll } from "../../async/mod.ts";
import { getLogger } from "../../telemetry/mod.ts";
import { GrpcError, StatusCode } from "../base/status.ts";
import { answerCall, type BoundMethod } from "../calls/call.ts";
import type { MessageLimits } from "./message_reader.ts";
import { FairShare } from "../limits/fair_share.ts";
import type { ReadBuffers } from "../limits/read_buffers.ts";
import { type Route, type Routes, unknownMethod } from "../calls/routes.ts";
import type { ConnectionEvent } from "./connection_event.ts";
import { ServerConnection } from "./server_connection.ts";

const log = getLogger("grpc");

/** With so much unsent, a peer has to read before more of it is read. */
const MAX_OUTPUT = 64 * 1024;

/** For the first that a client sends, and for what it is to read. */
const MAX_STALL_MS = 20_000;
const MAX_QUIET_MS = 300_000;

/** Options that all connections of a server share. */
export interface SessionOptions {
  readonly routes: Routes;
  readonly limits: MessageLimits;
  readonly buffers: ReadBuffers;
  /** Of the processor, for all of them. */
  readonly share: FairShare;
  /** One at a time waits for that share, so that not all go on at once. */
  readonly turns: Mutex;
  /** Milliseconds of a clock that only goes forward. */
  readonly nowMs: () => number;
  /** Owns the calls. */
  readonly start: (name: string, task: () => Promise<void>) => void;
}

/** A call under way. */
interface OpenCall {
  readonly streamId: number;
  readonly route: Route;
  readonly abort: AbortController;
  /** By `nowMs`. */
  readonly expires?: number;
  readonly timer?: Disposable;
  message: Uint8Array | undefined;
  isRunning: boolean;
}

/** A connection at work: its I/O, and its calls. */
export class Session {
  readonly #connection: Deno.UnixConn;
  readonly #options: SessionOptions;
  readonly #http2: ServerConnection;
  readonly #share: FairShare;
  readonly #calls = new Map<number, OpenCall>();
  #running = 0;
  #quietSince: number;
  #isWaiting = false;
  /** How long the peer's bytes have waited for their turns. */
  #waitedMs = 0;
  #writing: Promise<void> | undefined;
  #writingSince = Infinity;
  #isClosed = false;

  constructor(connection: Deno.UnixConn, options: SessionOptions) {
    this.#connection = connection;
    this.#options = options;
    const { nowMs, limits } = options;
    this.#share = new FairShare(nowMs);
    // While its bytes wait no time passes, or a flood that is held back would be too slow for one.
    const now = () => nowMs() - this.#waitedMs;
    this.#http2 = new ServerConnection({ ...limits, now });
    this.#quietSince = nowMs();
  }

  /** How long no handler has been at work, in ms; 0 while one is. */
  get quietMs(): number {
    return this.#running > 0 ? 0 : this.#options.nowMs() - this.#quietSince;
  }

  /** Whether bytes of the peer wait for their turn. */
  get isWaiting(): boolean {
    return this.#isWaiting;
  }

  /** Whether the peer has shown that it speaks HTTP/2. */
  get isEstablished(): boolean {
    return this.#http2.isEstablished;
  }

  /** Closes a connection that keeps memory and does nothing with it. */
  closeStale(): void {
    const nowMs = this.#options.nowMs();
    if (nowMs - this.#writingSince > MAX_STALL_MS) return this.close();
    // A peer that waits for its turn is not at fault.
    if (this.#isWaiting) return;
    const maxQuietMs = this.isEstablished ? MAX_QUIET_MS : MAX_STALL_MS;
    if (this.quietMs <= maxQuietMs) return;
    this.stop(
      new GrpcError("Quiet for long", { code: StatusCode.UNAVAILABLE }),
    );
  }

  /** Serves the connection until its end. Never rejects. */
  async run(): Promise<void> {
    const buffer = this.#options.buffers.take();
    try {
      while (!this.#http2.isFinished) {
        const count = await this.#connection.read(buffer);
        if (count === null) break;
        this.#isWaiting = true;
        await this.#receiveInTurn(buffer.subarray(0, count));
        this.#isWaiting = false;
        while (this.#hasToWait) await this.#writing;
      }
      await this.#writing;
    } catch (err) {
      if (!this.#isClosed && !isDisconnect(err)) {
        log.warn("Cannot serve a connection", { err });
      }
    } finally {
      this.#options.buffers.give(buffer);
      this.close();
      const gone = cancelled("Connection closed by the caller");
      for (const call of [...this.#calls.values()]) this.#abort(call, gone);
    }
  }

  /** Takes no new calls; ends the connection once the running ones have. */
  goAway(): void {
    this.#http2.goAway();
    this.#flush();
  }

  /** Ends the calls under way with the error, then the connection. */
  stop(error: GrpcError): void {
    this.#http2.goAway();
    for (const call of [...this.#calls.values()]) this.#abort(call, error);
    this.#http2.dropStalled();
    this.#flush();
  }

  /** Ends the connection at once. */
  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#connection.close();
  }

  /** Waits until neither this connection nor all together are ahead of their share. */
  async #receiveInTurn(bytes: Uint8Array): Promise<void> {
    const { nowMs, share, turns } = this.#options;
    const sinceMs = nowMs();
    await caughtUp(this.#share);
    using _turn = await turns.lock();
    await caughtUp(share);
    this.#waitedMs += nowMs() - sinceMs;
    if (this.#isClosed) return;
    share.measure(() => this.#share.measure(() => this.#receive(bytes)));
  }

  get #hasToWait(): boolean {
    return this.#writing !== undefined && this.#http2.outputBytes > MAX_OUTPUT;
  }

  #receive(bytes: Uint8Array): void {
    for (const event of this.#http2.receive(bytes)) this.#handle(event);
    const { failure } = this.#http2;
    if (failure) log.info("Closing a connection", { err: failure });
    this.#flush();
  }

  #handle(event: ConnectionEvent): void {
    if (event.type === "call") return this.#open(event);
    const call = this.#calls.get(event.streamId);
    if (call === undefined) return;
    switch (event.type) {
      case "message":
        return this.#takeMessage(call, event.message);
      case "halfClose":
        return this.#halfClose(call);
      case "cancel":
        return this.#abort(call, cancelled("Cancelled by the caller"));
    }
  }

  #open(event: ConnectionEvent & { readonly type: "call" }): void {
    const { streamId, path, timeoutMs } = event;
    const route = this.#options.routes.get(path);
    if (route === undefined) {
      this.#http2.end(streamId, unknownMethod(path));
      return this.#http2.release(streamId);
    }
    const call: OpenCall = {
      streamId,
      route,
      abort: new AbortController(),
      ...(timeoutMs !== undefined && {
        expires: this.#options.nowMs() + timeoutMs,
        timer: startTimer(timeoutMs, () => this.#expire(call)),
      }),
      message: undefined,
      isRunning: false,
    };
    this.#calls.set(streamId, call);
    this.#share.addCall();
    this.#options.share.addCall();
  }

  #expire(call: OpenCall): void {
    const code = StatusCode.DEADLINE_EXCEEDED;
    this.#abort(call, new GrpcError("Deadline exceeded", { code }));
    this.#flush();
  }

  /** Ends a call and aborts its handler's signal; the caller gets the error if it is there. */
  #abort(call: OpenCall, error: GrpcError): void {
    this.#end(call, error);
    call.abort.abort(error);
  }

  #end(call: OpenCall, error?: GrpcError): void {
    call.timer?.[Symbol.dispose]();
    this.#calls.delete(call.streamId);
    this.#http2.end(call.streamId, error);
    if (!call.isRunning) this.#http2.release(call.streamId);
  }

  #takeMessage(call: OpenCall, message: Uint8Array): void {
    if (call.route.kind === "stream") {
      return this.#answerOne(call, call.route.answer, message);
    }
    if (call.message === undefined) call.message = message;
    else this.#abort(call, cardinality("more than one"));
  }

  #answerOne(
    call: OpenCall,
    answer: (message: Uint8Array) => Uint8Array,
    message: Uint8Array,
  ): void {
    try {
      const isSent = this.#http2.send(call.streamId, answer(message));
      // The rest of its messages needs no answers.
      if (!isSent) this.#abort(call, cancelled("Cancelled by the caller"));
    } catch (error) {
      if (!(error instanceof GrpcError)) throw error;
      this.#end(call, error);
    }
  }

  #halfClose(call: OpenCall): void {
    const { route, message } = call;
    if (route.kind === "stream") this.#end(call);
    else if (message === undefined) this.#end(call, cardinality("no"));
    else {
      call.isRunning = true;
      this.#running++;
      const run = () => this.#run(call, route.method, message);
      this.#options.start(route.method.name, run);
    }
  }

  async #run(
    call: OpenCall,
    method: BoundMethod,
    request: Uint8Array,
  ): Promise<void> {
    const { abort: { signal }, expires } = call;
    const remainingMs = expires === undefined
      ? undefined
      : Math.max(0, expires - this.#options.nowMs());
    const incoming = { method: method.name, request, signal, remainingMs };
    const outcome = await answerCall(method, incoming);
    this.#running--;
    this.#quietSince = this.#options.nowMs();
    call.isRunning = false;
    // After an abort the call is answered already.
    if (signal.aborted) this.#http2.release(call.streamId);
    else if ("response" in outcome) {
      this.#http2.send(call.streamId, outcome.response);
      this.#end(call);
    } else this.#end(call, outcome.error);
    this.#flush();
  }

  /** Sends what is to be sent; what comes in the meantime goes after it. */
  #flush(): void {
    if (this.#isClosed || this.#writing !== undefined) return;
    if (this.#http2.outputBytes > 0) this.#writing = this.#write();
    else if (this.#http2.isFinished) this.close();
  }

  async #write(): Promise<void> {
    try {
      while (this.#http2.outputBytes > 0) {
        this.#writingSince = this.#options.nowMs();
        await writeAll(this.#connection, this.#http2.takeOutput());
      }
      if (this.#http2.isFinished) this.close();
    } catch {
      // After any error the connection can no longer be used; its calls end with it.
      this.close();
    } finally {
      this.#writing = undefined;
      this.#writingSince = Infinity;
    }
  }
}

async function caughtUp(share: FairShare): Promise<void> {
  for (let ms = share.pauseMs; ms > 0; ms = share.pauseMs) await sleep(ms);
}

function cancelled(message: string): GrpcError {
  return new GrpcError(message, { code: StatusCode.CANCELLED });
}

function cardinality(count: string): GrpcError {
  return new GrpcError(`A unary call with ${count} request message`, {
    code: StatusCode.UNIMPLEMENTED,
  });
}
