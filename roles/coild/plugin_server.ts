import {
  abortable,
  sleep,
  startTimer,
  TaskGroup,
} from "../../lib/async/mod.ts";
import {
  encodeAnswer,
  LAUNCHER_SOCKET_SUFFIX,
  type LauncherRequest,
} from "../../lib/cnirpc/launcher/mod.ts";
import {
  GrpcError,
  placeSocket,
  type RunningServer,
  SocketPathError,
  StatusCode,
} from "../../lib/grpc/server/mod.ts";
import { COILD_SOCKET } from "../../lib/names/mod.ts";
import { type Answer, isOwnNetns, runPlugin } from "../../lib/plugin/mod.ts";
import { getLogger } from "../../lib/telemetry/mod.ts";
import { LauncherConnection } from "./launcher_connection.ts";

const log = getLogger("plugin");

/** As the plugin in a process of its own has it. */
const CALL_TIMEOUT_MS = 60_000;
/** For a request to arrive, and for an answer to be taken. */
const STALL_MS = 20_000;
/** As for calls by gRPC. */
const GRACE_MS = 10_000;
/** Pause after accept() has failed, as it does without free descriptors. */
const ACCEPT_PAUSE_MS = 100;
/** A node has some hundred pods at most. */
const MAX_CONNECTIONS = 1024;

/** Options of {@linkcode servePlugins}. */
export interface PluginServerOptions {
  /** The gRPC server, whose methods are called as the plugin calls them. */
  readonly server: Pick<RunningServer, "call" | "socketPath">;
  /** Ends the server: no new calls, running ones may finish. */
  readonly signal: AbortSignal;
}

/**
 * Answers the launcher, which runtimes call as the CNI plugin: coild does what
 * the plugin would do in a process of its own, whose start takes longer than
 * all else. See `lib/cnirpc/launcher`. Resolves when it listens; `finished`
 * when the last call has ended after the signal.
 */
export async function servePlugins(
  { server, signal }: PluginServerOptions,
): Promise<{ readonly finished: Promise<void> }> {
  const listener = await listen(server.socketPath + LAUNCHER_SOCKET_SUFFIX);
  const finished = listener === undefined
    ? Promise.resolve()
    : new PluginServer(server).run(listener, signal);
  return { finished };
}

/** Without it pods are served all the same, by the plugin in a process of its own. */
async function listen(path: string): Promise<Deno.UnixListener | undefined> {
  let listener: Deno.UnixListener | undefined;
  const bind = (path: string) => {
    listener = Deno.listen({ transport: "unix", path });
    return Promise.resolve();
  };
  try {
    await placeSocket(path, { mode: 0o600, bind });
  } catch (err) {
    if (!(err instanceof SocketPathError)) throw err;
    log.warn("Cannot answer launchers: each pod takes longer to start", {
      err,
    });
  }
  return listener;
}

class PluginServer {
  readonly #server: PluginServerOptions["server"];
  readonly #connections = new TaskGroup();
  #open = 0;

  constructor(server: PluginServerOptions["server"]) {
    this.#server = server;
  }

  /** Serves until the signal; calls under way may finish. */
  async run(
    listener: Deno.UnixListener,
    signal: AbortSignal,
  ): Promise<void> {
    await this.#accept(listener, signal);
    using _force = startTimer(
      GRACE_MS,
      () => this.#connections.abort(unavailable("Server is stopping")),
    );
    await this.#connections.wait();
  }

  async #accept(
    listener: Deno.UnixListener,
    signal: AbortSignal,
  ): Promise<void> {
    using _close = onAbort(signal, () => listener.close());
    while (!signal.aborted) {
      try {
        this.#serve(await listener.accept());
      } catch (err) {
        if (signal.aborted) return;
        log.warn("Cannot accept a connection", { err });
        await sleep(ACCEPT_PAUSE_MS);
      }
    }
  }

  #serve(socket: Deno.UnixConn): void {
    const connection = new LauncherConnection(socket);
    // Its launcher runs the plugin, whose connections are counted elsewhere.
    if (this.#open >= MAX_CONNECTIONS) return connection.close();
    this.#open++;
    this.#connections.run("launcher", async (signal) => {
      try {
        await this.#answer(connection, signal);
      } catch (err) {
        log.warn("Cannot answer a launcher", { err });
      } finally {
        this.#open--;
        connection.close();
      }
    });
  }

  async #answer(
    connection: LauncherConnection,
    signal: AbortSignal,
  ): Promise<void> {
    const request = await within(connection, () => connection.read());
    if (request === undefined) return;
    const answer = await this.#plugin(request, { connection, signal });
    const bytes = answer && encodeAnswer(answer);
    if (bytes === undefined) return;
    await within(connection, () => connection.write(bytes));
  }

  /** Undefined when the call is for another coild. */
  async #plugin(
    { env, stdin }: LauncherRequest,
    { connection, signal }: {
      readonly connection: LauncherConnection;
      readonly signal: AbortSignal;
    },
  ): Promise<Answer | undefined> {
    using call = new Call(signal);
    this.#connections.run("end of a launcher", async () => {
      await connection.closed();
      call.end(gone());
    });
    let isOther = false;
    const answer = await runPlugin({
      env: (name) => env.get(name),
      readStdin: () => stdin,
      call: async ({ socketPath, method, message }) => {
        isOther = socketPath !== this.#server.socketPath;
        if (isOther) throw unavailable(`Not at "${socketPath}"`);
        const request = {
          ...{ request: message, signal: call.signal },
          remainingMs: CALL_TIMEOUT_MS,
        };
        return await abortable(
          this.#server.call(method, request),
          call.signal,
        );
      },
      isOwnNetns,
      defaultSocket: COILD_SOCKET,
    });
    return isOther ? undefined : answer;
  }
}

/** Ends when the server does, after a time, or by `end()`. */
class Call implements Disposable {
  readonly #abort = new AbortController();
  readonly #stack = new DisposableStack();

  constructor(stop: AbortSignal) {
    this.#stack.use(onAbort(stop, () => this.end(stop.reason)));
    this.#stack.use(startTimer(CALL_TIMEOUT_MS, () => this.end(late())));
  }

  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  end(error: unknown): void {
    this.#abort.abort(error);
  }

  [Symbol.dispose](): void {
    this.#stack.dispose();
  }
}

/** Closes the connection of a launcher that stands still. */
async function within<T>(
  connection: LauncherConnection,
  fn: () => Promise<T>,
): Promise<T> {
  using _stall = startTimer(STALL_MS, () => connection.close());
  return await fn();
}

function onAbort(signal: AbortSignal, fn: () => void): Disposable {
  if (signal.aborted) fn();
  else signal.addEventListener("abort", fn, { once: true });
  return { [Symbol.dispose]: () => signal.removeEventListener("abort", fn) };
}

function unavailable(message: string): GrpcError {
  return new GrpcError(message, { code: StatusCode.UNAVAILABLE });
}

function late(): GrpcError {
  const code = StatusCode.DEADLINE_EXCEEDED;
  return new GrpcError(`No answer within ${CALL_TIMEOUT_MS} ms`, { code });
}

function gone(): GrpcError {
  const code = StatusCode.CANCELLED;
  return new GrpcError("Connection closed by the caller", { code });
}
