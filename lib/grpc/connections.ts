import { startTimer } from "../async/mod.ts";
import { BoundedSocket } from "./bounded_socket.ts";
import { ByteBudget } from "./frame_guard.ts";

const MAX_CONNECTIONS = 1024;
const SWEEP_MS = 5_000;
/** For the first that a client sends, and for what it is to read. */
const MAX_STALL_MS = 20_000;
const MAX_QUIET_MS = 300_000;

/** Options of {@linkcode Connections}. */
export interface ConnectionsOptions {
  /** For the requests under way on all of them. */
  readonly requestBytes: number;
  /** How long a peer may take to say that it speaks HTTP/2, and to read. Default 20 s. */
  readonly maxStallMs?: number;
  /** How long a connection may be without a call. Default 5 min. */
  readonly maxQuietMs?: number;
  /** How often they are looked at. Default 5 s. */
  readonly sweepMs?: number;
}

/** Bounds the number and the time of connections. */
export class Connections {
  readonly #budget: ByteBudget;
  readonly #options: Required<ConnectionsOptions>;
  readonly #open = new Set<BoundedSocket>();
  #sweep: Disposable | undefined;
  #none: (() => void) | undefined;

  constructor(options: ConnectionsOptions) {
    this.#options = {
      maxStallMs: MAX_STALL_MS,
      maxQuietMs: MAX_QUIET_MS,
      sweepMs: SWEEP_MS,
      ...options,
    };
    this.#budget = new ByteBudget(options.requestBytes);
  }

  /** Takes a connection; undefined when there are too many, all of them busy. */
  add(socket: Deno.UnixConn): BoundedSocket | undefined {
    if (this.#open.size >= MAX_CONNECTIONS && !this.relieve()) {
      socket.close();
      return undefined;
    }
    const connection = new BoundedSocket(socket, this.#budget);
    this.#open.add(connection);
    connection.once("close", () => {
      this.#open.delete(connection);
      if (this.#open.size === 0) this.#none?.();
    });
    this.#startSweep();
    return connection;
  }

  /** Closes the connection that has been quiet for the longest time, if there is one. */
  relieve(): boolean {
    let [quietest]: Iterable<BoundedSocket> = this.#open;
    for (const connection of this.#open) {
      if (quietest && connection.quietMs > quietest.quietMs) {
        quietest = connection;
      }
    }
    if (quietest === undefined || quietest.quietMs === 0) return false;
    this.#open.delete(quietest);
    quietest.destroy();
    return true;
  }

  /** Ends: connections without a call now, all of them after a time. */
  async close(graceMs: number): Promise<void> {
    this.#sweep?.[Symbol.dispose]();
    for (const connection of this.#open) {
      if (!connection.isEstablished) connection.destroy();
    }
    if (this.#open.size === 0) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#none = resolve;
    using _force = startTimer(graceMs, () => {
      for (const connection of this.#open) connection.destroy();
    });
    await promise;
  }

  /** Closes connections that keep memory and do nothing with it. */
  #closeStale(): void {
    this.#sweep = undefined;
    const { maxQuietMs, maxStallMs } = this.#options;
    for (const connection of this.#open) {
      const { quietMs, stalledMs, isEstablished } = connection;
      const patienceMs = isEstablished ? maxQuietMs : maxStallMs;
      if (stalledMs > maxStallMs || quietMs > patienceMs) connection.destroy();
    }
    if (this.#open.size > 0) this.#startSweep();
  }

  #startSweep(): void {
    const { sweepMs } = this.#options;
    this.#sweep ??= startTimer(sweepMs, () => this.#closeStale());
  }
}
