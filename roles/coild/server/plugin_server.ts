import { abortable, startTimer, TaskGroup } from "../../../lib/async/mod.ts";
import {
  encodeAnswer,
  LAUNCHER_SOCKET_SUFFIX,
  type LauncherRequest,
} from "../../../lib/cnirpc/launcher/mod.ts";
import {
  GrpcError,
  placeSocket,
  type RunningServer,
  SocketPathError,
  StatusCode,
} from "../../../lib/grpc/server/mod.ts";
import { COILD_SOCKET } from "../../../lib/names/mod.ts";
import { type Answer, isOwnNetns, runPlugin } from "../../../lib/plugin/mod.ts";
import { acceptAll, getLogger } from "../../../lib/telemetry/mod.ts";
import type { LauncherOutcome } from "../observe/metrics.ts";
import { LauncherConnection } from "./launcher_connection.ts";

const log = getLogger("plugin");

/** As the plugin in a process of its own has it. */
const CALL_TIMEOUT_MS = 60_000;
/** For a request to arrive, and for an answer to be taken. */
const STALL_MS = 20_000;
/** As for calls by gRPC: how long they may go on after the signal, and then to say that they do not. */
const GRACE_MS = 10_000;
const LAST_WORDS_MS = 200;
/** A node has some hundred pods at most. */
const MAX_CONNECTIONS = 1024;

/** Options of {@linkcode servePlugins}. */
export interface PluginServerOptions {
  /** The gRPC server, whose methods are called as the plugin calls them. */
  readonly server: Pick<RunningServer, "call" | "socketPath">;
  /** Ends the server: no new calls, running ones may finish. */
  readonly signal: AbortSignal;
  /** Is told of each call. */
  readonly onOutcome?: (outcome: LauncherOutcome) => void;
  /** How long running calls may take once the signal came. Default 10 s. */
  readonly graceMs?: number;
}

/**
 * Answers the launcher, which runtimes call as the CNI plugin: coild does what
 * the plugin would do in a process of its own, whose start takes longer than
 * all else. See `lib/cnirpc/launcher`. Resolves when it listens; `finished`
 * when the last connection has ended after the signal.
 */
export async function servePlugins(
  options: PluginServerOptions,
): Promise<{ readonly finished: Promise<void> }> {
  const path = options.server.socketPath + LAUNCHER_SOCKET_SUFFIX;
  const listener = await listen(path);
  const finished = listener === undefined
    ? Promise.resolve()
    : new PluginServer(options).run(listener);
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
  readonly #options: PluginServerOptions;
  readonly #tasks = new TaskGroup();
  readonly #calls = new AbortController();
  readonly #open = new Set<LauncherConnection>();
  #hasWarned = false;

  constructor(options: PluginServerOptions) {
    this.#options = options;
  }

  /** Serves until the signal; calls under way may finish. */
  async run(listener: Deno.UnixListener): Promise<void> {
    await this.#accept(listener);
    // Whoever has not said what it wants need not wait.
    for (const connection of this.#open) {
      if (!connection.hasRequest) connection.close();
    }
    const { graceMs = GRACE_MS } = this.#options;
    using _stop = startTimer(
      graceMs,
      () => this.#calls.abort(unavailable("Server is stopping")),
    );
    using _close = startTimer(graceMs + LAST_WORDS_MS, () => {
      for (const connection of this.#open) connection.close();
    });
    await this.#tasks.wait();
  }

  async #accept(listener: Deno.UnixListener): Promise<void> {
    const { signal } = this.#options;
    using _close = onAbort(signal, () => listener.close());
    await acceptAll(listener, {
      address: this.#options.server.socketPath + LAUNCHER_SOCKET_SUFFIX,
      signal,
      take: (socket) => this.#serve(new LauncherConnection(socket)),
      relieve: () => this.#closeOne(),
    });
  }

  /** Closes the oldest connection that has not said what it wants: that launcher becomes the executable. */
  #closeOne(): void {
    for (const connection of this.#open) {
      if (connection.hasRequest) continue;
      this.#open.delete(connection);
      this.#options.onOutcome?.("busy");
      return connection.close();
    }
  }

  #serve(connection: LauncherConnection): void {
    // A launcher that is not answered becomes the executable.
    if (this.#open.size >= MAX_CONNECTIONS) {
      this.#options.onOutcome?.("busy");
      return connection.close();
    }
    this.#open.add(connection);
    this.#tasks.run("launcher", async () => {
      using _connection = connection;
      try {
        const outcome = await this.#answer(connection);
        if (outcome !== undefined) this.#options.onOutcome?.(outcome);
      } catch (err) {
        this.#options.onOutcome?.("unusable");
        log.warn("Cannot answer a launcher", { err });
      } finally {
        this.#open.delete(connection);
      }
    });
  }

  /** Undefined when the launcher went away. */
  async #answer(
    connection: LauncherConnection,
  ): Promise<LauncherOutcome | undefined> {
    const request = await within(connection, () => connection.read());
    if (request === undefined) return undefined;
    if (this.#options.signal.aborted) return "busy";
    const answer = await this.#plugin(request, connection);
    if (answer === undefined) return "other-socket";
    const bytes = encodeAnswer(answer);
    if (bytes === undefined) return "unusable";
    await within(connection, () => connection.write(bytes));
    return "answered";
  }

  /** Undefined when the call is for another coild. */
  async #plugin(
    { env, stdin }: LauncherRequest,
    connection: LauncherConnection,
  ): Promise<Answer | undefined> {
    using call = new Call(this.#calls.signal);
    this.#tasks.run("end of a launcher", async () => {
      await connection.closed();
      call.end(gone());
    });
    const { server } = this.#options;
    let isOther = false;
    const answer = await runPlugin({
      env: (name) => env.get(name),
      readStdin: () => stdin,
      call: async ({ socketPath, method, message }) => {
        isOther = socketPath !== server.socketPath;
        if (isOther) throw this.#notHere(socketPath);
        const { signal } = call;
        const remainingMs = CALL_TIMEOUT_MS;
        return await abortable(
          server.call(method, { request: message, signal, remainingMs }),
          signal,
        );
      },
      isOwnNetns,
      defaultSocket: COILD_SOCKET,
    });
    return isOther ? undefined : answer;
  }

  /** Said once: it costs the start of an executable for each pod, and nothing else. */
  #notHere(socketPath: string): GrpcError {
    if (!this.#hasWarned) {
      log.warn(
        "Left a call to the executable: the network configuration names another socket than coild has; make them the same for pods to start faster",
        { configured: socketPath, socket: this.#options.server.socketPath },
      );
    }
    this.#hasWarned = true;
    return unavailable(`Not at "${socketPath}"`);
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
