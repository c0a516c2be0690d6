import { untilAborted } from "../../async/mod.ts";
import type { GrpcService } from "../base/service.ts";
import { Listener } from "./listener.ts";
import { makeRoutes } from "../calls/routes.ts";
import { placeSocket } from "./socket.ts";

export interface ServeOptions {
  /** Absolute path of the UNIX socket to listen on. */
  readonly socketPath: string;
  readonly service: GrpcService;
  /** Ends the server: no new calls, running ones may finish. */
  readonly signal: AbortSignal;
  /** Permissions of the socket. Default 0600. */
  readonly mode?: number;
  /** How long running calls may take once the signal came. Default 10 s. */
  readonly graceMs?: number;
}

/** A server at work. */
export interface RunningServer {
  /** Where it listens. */
  readonly socketPath: string;
  /** Resolves when the last call has ended after the signal. */
  readonly finished: Promise<void>;
}

/**
 * Serves gRPC on a UNIX socket, with server reflection. A socket that an
 * earlier process left at the path is replaced; the server's own stays when it
 * ends, since it might be a successor's by then: it refuses connections.
 *
 * @throws {SocketPathError} when something else is at the path
 */
export async function serve(options: ServeOptions): Promise<RunningServer> {
  const { socketPath, service, mode = 0o600, signal } = options;
  signal.throwIfAborted();
  const listener = new Listener({ routes: makeRoutes(service) });
  await placeSocket(socketPath, {
    mode,
    bind: (path) => Promise.resolve(listener.listen(path)),
  });
  const finished = untilAborted(signal)
    .then(() => listener.stop(options.graceMs ?? 10_000));
  return { socketPath, finished };
}
