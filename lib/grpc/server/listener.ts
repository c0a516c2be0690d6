import { Mutex, startTimer, TaskGroup } from "../../async/mod.ts";
import { acceptAll } from "../../telemetry/mod.ts";
import { GrpcError, StatusCode } from "../base/status.ts";
import { FairShare } from "../limits/fair_share.ts";
import { ByteBudget } from "../connection/message_reader.ts";
import { ReadBuffers } from "../limits/read_buffers.ts";
import type { Routes } from "../calls/routes.ts";
import { Session, type SessionOptions } from "../connection/session.ts";

const MAX_CONNECTIONS = 1024;

/** The largest request is a network configuration with prevResult. As servers of grpc-go have it. */
const MAX_MESSAGE_SIZE = 4 * 1024 * 1024;

/** All requests under way together. */
const MAX_REQUEST_BYTES = 16 * MAX_MESSAGE_SIZE;

/** What all connections together take of the processor: their server has more to do. Some 400 calls at once. */
const SHARE_OF_ALL = { share: 0.5, burstMs: 200 };

const SWEEP_MS = 5_000;
/** How long connections may take to end after their calls were ended. */
const LAST_WORDS_MS = 200;

/** What a server answers with. */
export interface ListenerOptions {
  readonly routes: Routes;
}

/** Accepts connections and bounds their number and their time. */
export class Listener {
  readonly #options: SessionOptions;
  readonly #sessions = new Set<Session>();
  readonly #accepting = new TaskGroup();
  readonly #serving = new TaskGroup();
  readonly #calls = new TaskGroup();
  #socket: Deno.UnixListener | undefined;
  #sweep: Disposable | undefined;

  constructor(options: ListenerOptions) {
    const nowMs = () => performance.now();
    this.#options = {
      ...options,
      limits: {
        maxSize: MAX_MESSAGE_SIZE,
        budget: new ByteBudget(MAX_REQUEST_BYTES),
      },
      buffers: new ReadBuffers(),
      share: new FairShare(nowMs, SHARE_OF_ALL),
      turns: new Mutex(),
      nowMs,
      start: (name, task) => this.#calls.run(name, task),
    };
  }

  /** Creates the socket and begins to accept. */
  listen(path: string): void {
    const socket = Deno.listen({ transport: "unix", path });
    this.#socket = socket;
    this.#accepting.run("accept", (signal) =>
      acceptAll(socket, {
        address: path,
        signal,
        take: (connection) => this.#add(connection),
        relieve: () => this.#makeRoom(),
      }));
  }

  /**
   * Ends: running calls have `graceMs`, then their signals are aborted, and their
   * callers answered.
   */
  async stop(graceMs: number): Promise<void> {
    this.#accepting.abort();
    this.#socket?.close();
    this.#socket = undefined;
    await this.#accepting.wait();
    this.#sweep?.[Symbol.dispose]();
    for (const session of this.#sessions) session.goAway();
    using _force = startTimer(graceMs, () => this.#stopCalls());
    const { promise: isOver, resolve: end } = Promise.withResolvers<void>();
    using _end = startTimer(graceMs + LAST_WORDS_MS, end);
    await Promise.race([this.#drain(), isOver]);
    for (const session of this.#sessions) session.close();
    await this.#serving.wait();
  }

  /** Waits for connections, and for calls whose callers have gone. */
  async #drain(): Promise<void> {
    await this.#serving.wait();
    await this.#calls.wait();
  }

  #stopCalls(): void {
    const code = StatusCode.UNAVAILABLE;
    const error = new GrpcError("Server is stopping", { code });
    for (const session of this.#sessions) session.stop(error);
  }

  #add(connection: Deno.UnixConn): void {
    if (this.#sessions.size >= MAX_CONNECTIONS && !this.#makeRoom()) {
      connection.close();
      return;
    }
    const session = new Session(connection, this.#options);
    this.#sessions.add(session);
    this.#serving.run("connection", async () => {
      await session.run();
      this.#sessions.delete(session);
    });
    this.#sweep ??= startTimer(SWEEP_MS, () => this.#closeStale());
  }

  /** Closes the connection that has been quiet for the longest time. */
  #makeRoom(): boolean {
    let [quietest]: Iterable<Session> = this.#sessions;
    for (const session of this.#sessions) {
      if (quietest && session.quietMs > quietest.quietMs) quietest = session;
    }
    if (quietest === undefined || quietest.quietMs === 0) return false;
    this.#sessions.delete(quietest);
    quietest.close();
    return true;
  }

  /** Closes connections that keep memory and do nothing with it. */
  #closeStale(): void {
    this.#sweep = undefined;
    for (const session of this.#sessions) session.closeStale();
    if (this.#sessions.size === 0) return;
    this.#sweep = startTimer(SWEEP_MS, () => this.#closeStale());
  }
}
