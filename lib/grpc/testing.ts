/**
 * A gRPC client for tests, of UNIX sockets. It is not grpc-js's, since Deno's
 * node:http2 damages the heap when calls are given up: decision 0021.
 *
 * @module
 */
import { jittered, onAbort, sleep, startTimer } from "../async/mod.ts";
import { messageOf } from "../errors/mod.ts";
import { exchange } from "./client/exchange.ts";
import { GrpcError, StatusCode } from "./base/status.ts";

/** The socket does not answer: it is absent, or no process listens. */
export class ConnectError extends Error {
  override readonly name = "ConnectError";
}

export interface CallOptions {
  readonly socketPath: string;
  /** `/package.Service/Method` */
  readonly method: string;
  readonly message: Uint8Array;
  /** Default 60 s. */
  readonly timeoutMs?: number;
  /** The deadline that the server gets. Default: {@linkcode timeoutMs}. */
  readonly deadlineMs?: number;
  /** Hangs up. */
  readonly signal?: AbortSignal | undefined;
}

/** Pause before another attempt when the server's backlog is full. */
const BACKLOG_PAUSE_MS = 10;

/**
 * Makes a unary call over a connection of its own and returns the answer.
 *
 * @throws {ConnectError} when no process listens at the socket
 * @throws {GrpcError} when the call fails, DEADLINE_EXCEEDED when it takes long
 */
export async function callUnary(options: CallOptions): Promise<Uint8Array> {
  const { socketPath, timeoutMs = 60_000, signal } = options;
  const { deadlineMs = timeoutMs } = options;
  signal?.throwIfAborted();
  const late = new AbortController();
  using _late = startTimer(timeoutMs, () => {
    const code = StatusCode.DEADLINE_EXCEEDED;
    late.abort(new GrpcError(`No answer within ${timeoutMs} ms`, { code }));
  });
  const stop = AbortSignal.any(signal ? [late.signal, signal] : [late.signal]);
  using connection = await connect(socketPath, stop);
  const hangUp = () => connection[Symbol.dispose]();
  using _listening = onAbort(stop, hangUp);
  try {
    return await exchange(connection, { ...options, timeoutMs: deadlineMs });
  } catch (error) {
    throw stop.aborted ? stop.reason : error;
  }
}

async function connect(
  path: string,
  stop: AbortSignal,
): Promise<Deno.UnixConn> {
  while (true) {
    stop.throwIfAborted();
    try {
      return await Deno.connect({ transport: "unix", path });
    } catch (cause) {
      // A full backlog is EAGAIN on a UNIX socket: unix(7).
      if (!(cause instanceof Deno.errors.WouldBlock)) {
        throw new ConnectError(
          `Cannot connect to socket "${path}": ${messageOf(cause)}`,
          {
            cause,
          },
        );
      }
      await sleep(jittered(BACKLOG_PAUSE_MS));
    }
  }
}
