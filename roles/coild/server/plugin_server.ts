import {
  onAbort,
  sleep,
  startTimer,
  TaskGroup,
} from "../../../lib/async/mod.ts";
import {
  encodeAnswer,
  PLUGIN_SOCKET_SUFFIX,
  type PluginAnswer,
  type PluginRequest,
} from "../../../lib/cnirpc/plugin/mod.ts";
import { COILD_SOCKET } from "../../../lib/names/mod.ts";
import {
  isOwnNetns,
  type PluginCall,
  runPlugin,
} from "../../../lib/plugin/mod.ts";
import { acceptAll, getLogger } from "../../../lib/telemetry/mod.ts";
import type { PluginOutcome } from "../observe/metrics.ts";
import { LAST_WORDS_MS } from "../service/cni_calls.ts";
import { PluginConnection, RequestMemory } from "./plugin_connection.ts";
import { listenForRoot } from "./root_socket.ts";

const log = getLogger("plugin");

/** For a request to arrive, and for an answer to be taken. Looked at now and then: timers for each call would take as long as some of its work. */
const STALL_MS = 20_000;
/** How often it is looked at, as a share of that time. */
const STALL_LOOKS = 4;
/** How long calls may go on after the signal. */
const GRACE_MS = 10_000;
/** A node has some hundred pods at most. */
const MAX_CONNECTIONS = 1024;

/** Whose call it is. */
export interface Caller {
  readonly env: PluginRequest["env"];
  /** Aborted when it has gone. */
  readonly signal: AbortSignal;
}

export interface PluginServerOptions {
  /** Makes a call; undefined leaves it to the whole program. */
  readonly perform: (
    call: PluginCall,
    caller: Caller,
  ) => Promise<PluginAnswer | undefined>;
  /** Path of the daemon's socket; this server listens beside it, at the path with {@linkcode PLUGIN_SOCKET_SUFFIX}. */
  readonly socketPath: string;
  /** Ends the server: no new calls, running ones may finish. */
  readonly signal: AbortSignal;
  /** Called on each call. */
  readonly onOutcome?: (outcome: PluginOutcome) => void;
  /** How long running calls may take once the signal came. Default 10 s. */
  readonly graceMs?: number;
  /** How long a plugin may send nothing, or not take its answer. Default 20 s. */
  readonly stallMs?: number;
}

/**
 * Answers the plugin: the executable's front, or the whole program where the
 * front had no answer. coild does the plugin's work in its own process, since
 * the start of another takes longer than all else. See `lib/cnirpc/plugin`. Resolves when it listens; `finished` when the last
 * connection has ended after the signal.
 *
 * @throws {SocketPathError} when there can be no socket at the path
 */
export async function servePlugins(
  options: PluginServerOptions,
): Promise<{ readonly finished: Promise<void> }> {
  const listener = await listenForRoot(
    options.socketPath + PLUGIN_SOCKET_SUFFIX,
  );
  return { finished: new PluginServer(options).run(listener) };
}

class PluginServer {
  readonly #options: PluginServerOptions;
  readonly #tasks = new TaskGroup();
  readonly #memory = new RequestMemory();
  readonly #open = new Set<PluginConnection>();

  constructor(options: PluginServerOptions) {
    this.#options = options;
  }

  /** Serves until the signal; calls under way may finish. */
  async run(listener: Deno.UnixListener): Promise<void> {
    await using looks = new TaskGroup();
    looks.run("stalled plugins", (signal) => this.#closeStalled(signal));
    await this.#accept(listener);
    // A caller that has not sent its request is not waited for.
    for (const connection of this.#open) {
      if (!connection.hasRequest) connection.close();
    }
    const { graceMs = GRACE_MS } = this.#options;
    using _close = startTimer(graceMs + LAST_WORDS_MS, () => {
      for (const connection of this.#open) connection.close();
    });
    await this.#tasks.wait();
  }

  async #closeStalled(signal: AbortSignal): Promise<void> {
    const { stallMs = STALL_MS } = this.#options;
    for (;;) {
      await sleep(stallMs / STALL_LOOKS, { signal });
      for (const connection of this.#open) {
        if (connection.isStalled(stallMs)) connection.close();
      }
    }
  }

  async #accept(listener: Deno.UnixListener): Promise<void> {
    const { signal } = this.#options;
    using _close = onAbort(signal, () => listener.close());
    await acceptAll(listener, {
      address: this.#options.socketPath + PLUGIN_SOCKET_SUFFIX,
      signal,
      take: (socket) => this.#serve(new PluginConnection(socket, this.#memory)),
      relieve: () => this.#closeOne(),
    });
  }

  /** Closes the oldest connection without a whole request: its front goes on as the whole program. */
  #closeOne(): void {
    for (const connection of this.#open) {
      if (connection.hasRequest) continue;
      this.#open.delete(connection);
      this.#options.onOutcome?.("busy");
      return connection.close();
    }
  }

  #serve(connection: PluginConnection): void {
    if (this.#open.size >= MAX_CONNECTIONS) this.#closeOne();
    // A front that gets no answer goes on as the whole program.
    if (this.#open.size >= MAX_CONNECTIONS) {
      this.#options.onOutcome?.("busy");
      return connection.close();
    }
    this.#open.add(connection);
    this.#tasks.run("plugin call", async () => {
      using _connection = connection;
      try {
        const outcome = await this.#answer(connection);
        if (outcome !== undefined) this.#options.onOutcome?.(outcome);
      } catch (err) {
        this.#options.onOutcome?.("unusable");
        log.warn("Cannot answer a call of the plugin", { err });
      } finally {
        this.#open.delete(connection);
      }
    });
  }

  /** Undefined when the plugin went away. */
  async #answer(
    connection: PluginConnection,
  ): Promise<PluginOutcome | undefined> {
    const request = await connection.read();
    if (request === undefined) return undefined;
    if (this.#options.signal.aborted) return "busy";
    const answer = await this.#plugin(request, connection);
    if (answer === undefined) return "other-socket";
    const bytes = encodeAnswer(answer, request);
    if (bytes === undefined) return "unusable";
    await connection.write(bytes);
    return "answered";
  }

  /** Undefined when the call is for another coild. */
  async #plugin(
    request: PluginRequest,
    connection: PluginConnection,
  ): Promise<PluginAnswer | undefined> {
    const { env, stdin } = request;
    const caller = new AbortController();
    this.#tasks.run("end of a plugin call", async () => {
      await connection.closed();
      caller.abort();
    });
    let isOther = false;
    const answer = await runPlugin({
      env: (name) => env.get(name),
      readStdin: () => stdin,
      perform: async (call) => {
        const { signal } = caller;
        const answer = await this.#options.perform(call, { env, signal });
        isOther = answer === undefined;
        return answer ?? { stdout: "", exitCode: 1 };
      },
      isOwnNetns,
      defaultSocket: COILD_SOCKET,
    });
    return isOther ? undefined : answer;
  }
}
