import { ConnectError, GrpcError, StatusCode } from "./status.ts";
import { UnaryExchange, type UnaryRequest } from "./unary_exchange.ts";

/** Options of {@linkcode callUnary}. */
export interface CallOptions {
  readonly socketPath: string;
  /** `/package.Service/Method` */
  readonly method: string;
  readonly message: Uint8Array;
  /** Default 60 s. The server is told as well. */
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
}

const DEFAULT_TIMEOUT_MS = 60_000;
/** Pause before another attempt when the server's backlog is full. */
const BACKLOG_PAUSE_MS = 10;

/**
 * Makes a unary call over a connection of its own and returns the answer.
 *
 * @throws {ConnectError} when the socket is absent or nobody listens
 * @throws {GrpcError} when the call fails, DEADLINE_EXCEEDED when it takes long
 */
export async function callUnary(options: CallOptions): Promise<Uint8Array> {
  const { socketPath, timeoutMs = DEFAULT_TIMEOUT_MS, signal } = options;
  signal?.throwIfAborted();
  using stop = new Stop(timeoutMs, signal);
  try {
    using connection = await connect(socketPath, stop);
    stop.closeOnStop(connection);
    return await exchange(connection, { ...options, timeoutMs });
  } catch (error) {
    throw stop.reason ?? error;
  }
}

/** Ends a call early: by its timeout or by the caller's signal. */
export class Stop implements Disposable {
  /**
   * A signal, although a timer could be cleared: in Deno 2.9 the first
   * setTimeout() of a process loads Node's timers, 5 ms.
   */
  readonly #timeout: AbortSignal;
  readonly #timeoutMs: number;
  readonly #signal: AbortSignal | undefined;
  readonly #onAbort = () => this.#close();
  readonly #stopped = Promise.withResolvers<undefined>();
  #connection: Deno.Conn | undefined;

  constructor(timeoutMs: number, signal: AbortSignal | undefined) {
    this.#timeout = AbortSignal.timeout(timeoutMs);
    this.#timeoutMs = timeoutMs;
    this.#signal = signal;
    this.#timeout.addEventListener("abort", this.#onAbort);
    signal?.addEventListener("abort", this.#onAbort);
  }

  /** Why the call was ended; undefined as long as it was not. */
  get reason(): unknown {
    if (this.#signal?.aborted) return this.#signal.reason;
    if (!this.#timeout.aborted) return undefined;
    return new GrpcError(`No answer within ${this.#timeoutMs} ms`, {
      code: StatusCode.DEADLINE_EXCEEDED,
    });
  }

  /** Resolves, and never rejects, when the call is to end early. */
  get stopped(): Promise<undefined> {
    if (this.reason !== undefined) this.#stopped.resolve(undefined);
    return this.#stopped.promise;
  }

  /** Says what to close, since that ends reads and writes. */
  closeOnStop(connection: Deno.Conn): void {
    this.#connection = connection;
    if (this.reason !== undefined) this.#close();
  }

  [Symbol.dispose](): void {
    this.#timeout.removeEventListener("abort", this.#onAbort);
    this.#signal?.removeEventListener("abort", this.#onAbort);
  }

  #close(): void {
    this.#stopped.resolve(undefined);
    try {
      this.#connection?.close();
    } catch (error) {
      if (!(error instanceof Deno.errors.BadResource)) throw error;
    }
  }
}

async function connect(path: string, stop: Stop): Promise<Deno.UnixConn> {
  while (true) {
    try {
      return await Deno.connect({ transport: "unix", path });
    } catch (cause) {
      // A full backlog is EAGAIN on a UNIX socket: unix(7).
      if (!(cause instanceof Deno.errors.WouldBlock)) {
        throw new ConnectError(path, { cause });
      }
      if (stop.reason !== undefined) throw stop.reason;
      await new Promise((resolve) => setTimeout(resolve, BACKLOG_PAUSE_MS));
    }
  }
}

/** Makes a call over a connection that is used for nothing else. @throws {GrpcError} */
export async function exchange(
  connection: Deno.Conn,
  request: UnaryRequest,
): Promise<Uint8Array> {
  const call = new UnaryExchange(request);
  const buffer = new Uint8Array(65536);
  let broken: unknown;
  while (call.response === undefined) {
    // A peer may answer without reading the whole request, and close.
    broken ??= await writeAll(connection, call.takeOutput());
    const count = await readSome(connection, buffer);
    if (typeof count !== "number") throw closedEarly(count ?? broken);
    call.receive(buffer.subarray(0, count));
  }
  return call.response;
}

/** Writes all of it; returns the error when the peer has closed. */
async function writeAll(
  connection: Deno.Conn,
  bytes: Uint8Array,
): Promise<unknown> {
  try {
    let rest = bytes;
    while (rest.length > 0) {
      rest = rest.subarray(await connection.write(rest));
    }
    return undefined;
  } catch (error) {
    if (!isDisconnect(error)) throw error;
    return error;
  }
}

/** Returns how many bytes came, null at the end, or the error it ended with. */
async function readSome(
  connection: Deno.Conn,
  buffer: Uint8Array,
): Promise<unknown> {
  try {
    return await connection.read(buffer);
  } catch (error) {
    if (!isDisconnect(error)) throw error;
    return error;
  }
}

function isDisconnect(error: unknown): boolean {
  return error instanceof Deno.errors.BrokenPipe ||
    error instanceof Deno.errors.ConnectionReset;
}

function closedEarly(cause: unknown): GrpcError {
  return new GrpcError("Connection closed before the answer", {
    code: StatusCode.UNAVAILABLE,
    cause,
  });
}
