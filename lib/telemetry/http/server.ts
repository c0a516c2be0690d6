import {
  Allowances,
  onAbort,
  sleep,
  startTimer,
  TaskGroup,
} from "../../async/mod.ts";
import { acceptAll } from "../base/accept.ts";
import { getLogger } from "../base/log.ts";
import { HttpConnection, type HttpHandler } from "./connection.ts";
import { ConnectionTable } from "./connection_table.ts";
import type { HttpLimits } from "./limits.ts";

const log = getLogger("http");

/** How long answers under way may take when the server ends. */
const GRACE_MS = 1_000;
/** The same trouble is not logged more often. */
const QUIET_MS = 30_000;
/** How long fewer connections are allowed after there was no free descriptor. */
const RETREAT_MS = 60_000;
/** Accepting and closing takes 30 µs: a flood gets a twentieth of a processor at most. */
const MAX_ACCEPTS = 2_000;
const ACCEPT_WINDOW_MS = 1_000;
/** More than a server has at a time. */
const MAX_PEERS = 4_096;

export interface HttpServerOptions {
  /** Where it listens, in records. */
  readonly address: string;
  readonly handler: HttpHandler;
  readonly limits: HttpLimits;
  /** Ends the server. */
  readonly signal: AbortSignal;
}

/** Where connections come from: a TCP port or a UNIX socket. */
export interface ConnectionListener {
  accept(): Promise<Deno.Conn>;
  close(): void;
}

/** An HTTP/1.1 server that bounds what its peers can take: connections, time, memory and processor. */
export class HttpServer {
  readonly #options: HttpServerOptions;
  readonly #table: ConnectionTable<HttpConnection>;
  readonly #rates: Allowances;
  readonly #connections = new TaskGroup();
  #retreatedMs = Infinity;
  #refused = 0;
  #saidRefusedMs = -Infinity;
  #saidFailureMs = -Infinity;

  constructor(options: HttpServerOptions) {
    const { limits } = options;
    this.#options = options;
    this.#table = new ConnectionTable(limits);
    const { perSecond } = limits;
    const rate = { burst: 2 * perSecond, perSecond };
    this.#rates = new Allowances(rate, { max: MAX_PEERS });
  }

  /** Serves until the signal aborts and the last answer is given. Never rejects. */
  async run(listener: ConnectionListener): Promise<void> {
    const { address, signal } = this.#options;
    using _listening = onAbort(signal, () => this.#end(listener));
    await acceptAll(this.#paced(listener), {
      address,
      signal,
      take: (socket) => this.#take(socket),
      relieve: () => this.#retreat(),
    });
    using _late = startTimer(GRACE_MS, () => {
      for (const connection of this.#table.all) connection.close();
    });
    await this.#connections.wait();
  }

  /** Nothing else that the daemon has to open must fail for the sake of scrapers. */
  #retreat(): void {
    this.#table.retreat();
    this.#retreatedMs = performance.now();
  }

  #end(listener: ConnectionListener): void {
    listener.close();
    for (const connection of this.#table.all) {
      if (!connection.isAnswering) connection.close();
    }
  }

  /** In a flood the rest waits in the kernel, which refuses what is too much. */
  #paced(listener: ConnectionListener): { accept(): Promise<Deno.Conn> } {
    const { signal } = this.#options;
    let count = 0;
    let sinceMs = performance.now();
    const accept = async () => {
      const leftMs = sinceMs + ACCEPT_WINDOW_MS - performance.now();
      if (leftMs > 0 && count >= MAX_ACCEPTS) await sleep(leftMs, { signal });
      if (leftMs <= 0 || count >= MAX_ACCEPTS) {
        sinceMs = performance.now();
        count = 0;
      }
      count++;
      return await listener.accept();
    };
    return { accept };
  }

  #take(socket: Deno.Conn): void {
    const { handler, limits, signal } = this.#options;
    const peer = peerOf(socket.remoteAddr);
    if (performance.now() - this.#retreatedMs > RETREAT_MS) {
      this.#table.recover();
      this.#retreatedMs = Infinity;
    }
    const isAllowed = this.#rates.of(peer).takeOrOwe() === 0 &&
      !signal.aborted &&
      this.#table.makeRoom(peer);
    if (!isAllowed) {
      socket.close();
      return this.#noteRefusal(peer);
    }
    const connection = new HttpConnection(socket, {
      handler,
      limits,
      signal,
      peer,
      pause: () => this.#rates.of(peer).takeOrOwe(),
      onFailure: (err) => this.#noteFailure(err),
    });
    this.#table.add(connection);
    this.#connections.run(peer, async () => {
      await connection.run();
      this.#table.delete(connection);
    });
  }

  #noteRefusal(peer: string): void {
    this.#refused++;
    const nowMs = performance.now();
    if (nowMs - this.#saidRefusedMs < QUIET_MS) return;
    this.#saidRefusedMs = nowMs;
    log.warn("Refusing connections: there are too many", {
      address: this.#options.address,
      peer,
      refused: this.#refused,
      open: this.#table.all.size,
    });
  }

  /** A peer that asks again and again must not fill the log. */
  #noteFailure(err: unknown): void {
    const nowMs = performance.now();
    const isRepeated = nowMs - this.#saidFailureMs < QUIET_MS;
    if (isRepeated) return log.debug("Cannot answer a request", { err });
    this.#saidFailureMs = nowMs;
    log.error("Cannot answer a request", { err });
  }
}

/** Who is at a UNIX socket shares the bounds of one peer with all others there. */
function peerOf(address: Deno.Addr): string {
  if (!("hostname" in address)) return "local";
  // A socket of both families sees IPv4 as ::ffff:192.0.2.1.
  return address.hostname.replace(/^::ffff:(?=.*\.)/i, "");
}
