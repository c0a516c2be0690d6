import { untilAborted } from "../../async/mod.ts";
import type { Registry } from "../../telemetry/mod.ts";
import type { IncomingCall } from "./call.ts";
import { Listener } from "./listener.ts";
import type { BoundMethod } from "./method.ts";
import { CallMetrics } from "./metrics.ts";
import { makeRoutes } from "./routes.ts";
import { placeSocket } from "./socket.ts";

/** Options of {@linkcode serve}. */
export interface ServeOptions {
  /** Absolute path of the UNIX socket to listen on. */
  readonly socketPath: string;
  /** Every method of each service, with its handler; see `unary()`. */
  readonly methods: readonly BoundMethod[];
  /** Ends the server: no new calls, running ones may finish. */
  readonly signal: AbortSignal;
  /** Permissions of the socket. Default 0600. */
  readonly mode?: number;
  /** How long running calls may take once the signal came. Default 10 s. */
  readonly graceMs?: number;
  /** Where calls are counted, under the names of go-grpc-prometheus. */
  readonly registry?: Registry;
}

/** A server at work. */
export interface RunningServer {
  /** Where it listens. */
  readonly socketPath: string;
  /** Resolves when the last call has ended after the signal. */
  readonly finished: Promise<void>;
  /**
   * Makes a unary call from within the process, logged and counted as any
   * other, and waited for as they are. The path is `/package.Service/Method`.
   *
   * @throws {GrpcError} when the call fails
   */
  call(path: string, call: IncomingCall): Promise<Uint8Array>;
}

/**
 * Serves gRPC on a UNIX socket, with server reflection. A socket that an
 * earlier process left at the path is replaced; the server's own stays when it
 * ends, since it cannot tell it from a successor's: it refuses connections.
 *
 * @throws {SocketPathError} when something else is at the path
 */
export async function serve(options: ServeOptions): Promise<RunningServer> {
  const { socketPath, methods, signal, registry } = options;
  signal.throwIfAborted();
  const listener = new Listener({
    routes: makeRoutes(methods),
    metrics: registry && new CallMetrics(registry, methods),
  });
  await placeSocket(socketPath, {
    mode: options.mode ?? 0o600,
    bind: (path) => Promise.resolve(listener.listen(path)),
  });
  const finished = untilAborted(signal)
    .then(() => listener.stop(options.graceMs ?? 10_000));
  const call = listener.call.bind(listener);
  return { socketPath, finished, call };
}
