import { TaskGroup, untilAborted } from "../async/mod.ts";
import { acceptAll } from "../telemetry/mod.ts";
import type { GrpcJsServer } from "./grpc_js_server.ts";
import type { GrpcService } from "./service.ts";
import { placeSocket } from "./socket.ts";

/** How long connections may take to end after their calls were ended. */
const LAST_WORDS_MS = 200;

/** Options of {@linkcode serve}. */
export interface ServeOptions {
  /** Absolute path of the UNIX socket to listen on. */
  readonly socketPath: string;
  /** What is served; called when somebody connects first. */
  readonly load: () => Promise<GrpcService>;
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
  /** Resolves when the last connection has ended after the signal. */
  readonly finished: Promise<void>;
}

/**
 * Serves gRPC on a UNIX socket, with server reflection. A socket that an
 * earlier process left at the path is replaced; the server's own stays when it
 * ends, since it cannot tell it from a successor's: it refuses connections.
 *
 * grpc-js, which takes 7 MiB, is loaded when somebody connects first.
 *
 * @throws {SocketPathError} when something else is at the path
 */
export async function serve(options: ServeOptions): Promise<RunningServer> {
  const { socketPath, mode = 0o600, signal } = options;
  signal.throwIfAborted();
  const { promise, resolve } = Promise.withResolvers<Deno.UnixListener>();
  await placeSocket(socketPath, {
    mode,
    bind: async (path) => resolve(Deno.listen({ transport: "unix", path })),
  });
  return { socketPath, finished: run(await promise, options) };
}

async function run(
  listener: Deno.UnixListener,
  { socketPath, load, signal, graceMs = 10_000 }: ServeOptions,
): Promise<void> {
  let server: GrpcJsServer | undefined;
  let loading: Promise<GrpcJsServer> | undefined;
  const loaded = async () => {
    const { GrpcJsServer } = await import("./grpc_js_server.ts");
    return server = new GrpcJsServer(await load());
  };
  await using accepting = new TaskGroup();
  accepting.run("accept", (aborted) =>
    acceptAll(listener, {
      address: socketPath,
      signal: aborted,
      take: (socket) => {
        if (server !== undefined) return server.take(socket);
        accepting.run("load", async () => {
          (await (loading ??= loaded())).take(socket);
        });
      },
      relieve: () => server?.relieve(),
    }));
  await untilAborted(signal);
  accepting.abort();
  listener.close();
  await accepting.wait();
  await server?.close(graceMs + LAST_WORDS_MS);
}
