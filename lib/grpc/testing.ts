/**
 * A gRPC client for tests: grpc-js's.
 *
 * @module
 */
import { Client, credentials, type ServiceError } from "@grpc/grpc-js";
import { Buffer } from "node:buffer";
import { GrpcError, StatusCode } from "./status.ts";

/** Nobody answers at the socket: it is absent, or nobody listens. */
export class ConnectError extends Error {
  override readonly name = "ConnectError";
}

/** Options of {@linkcode callUnary}. */
export interface CallOptions {
  readonly socketPath: string;
  /** `/package.Service/Method` */
  readonly method: string;
  readonly message: Uint8Array;
  /** Default 60 s. The server is told as well. */
  readonly timeoutMs?: number;
  /** Hangs up. */
  readonly signal?: AbortSignal;
}

/**
 * Makes a unary call over a connection of its own and returns the answer.
 *
 * @throws {ConnectError} when nobody listens at the socket
 * @throws {GrpcError} when the call fails
 */
export async function callUnary(options: CallOptions): Promise<Uint8Array> {
  const { socketPath, method, message, timeoutMs = 60_000, signal } = options;
  signal?.throwIfAborted();
  await assertListened(socketPath);
  const client = new Client(
    `unix:${socketPath}`,
    credentials.createInsecure(),
    {
      "grpc.use_local_subchannel_pool": 1,
      "grpc.enable_channelz": 0,
      "grpc.max_receive_message_length": -1,
    },
  );
  const { promise, resolve, reject } = Promise.withResolvers<Uint8Array>();
  const call = client.makeUnaryRequest(
    method,
    toBuffer,
    (bytes) => bytes,
    message,
    { deadline: Date.now() + timeoutMs },
    (error, answer) =>
      error === null ? resolve(answer ?? new Uint8Array()) : reject(
        signal?.aborted ? signal.reason : toGrpcError(error),
      ),
  );
  const hangUp = () => call.cancel();
  signal?.addEventListener("abort", hangUp, { once: true });
  try {
    return await promise;
  } finally {
    signal?.removeEventListener("abort", hangUp);
    // A connection that is made after close() would stay open.
    if (signal?.aborted) {
      await new Promise((done) => {
        client.waitForReady(Date.now() + CONNECT_MS, done);
      });
    }
    client.close();
  }
}

/** For a connection that is being made when its call is given up. */
const CONNECT_MS = 1_000;

/** grpc-js would try again and again. */
async function assertListened(path: string): Promise<void> {
  try {
    (await Deno.connect({ transport: "unix", path })).close();
  } catch (cause) {
    // A full backlog is EAGAIN on a UNIX socket: unix(7).
    if (cause instanceof Deno.errors.WouldBlock) return;
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new ConnectError(`Cannot connect to socket "${path}": ${reason}`, {
      cause,
    });
  }
}

function toGrpcError(error: ServiceError): GrpcError {
  const { code = StatusCode.UNKNOWN, details, metadata } = error;
  const [bytes] = metadata?.get("grpc-status-details-bin") ?? [];
  const statusDetails = bytes instanceof Uint8Array ? bytes : undefined;
  return new GrpcError(details, { code, statusDetails, cause: error });
}

/** The same bytes as node: modules have them. */
function toBuffer(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
