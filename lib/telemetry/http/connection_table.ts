/** A connection, as far as the decision goes which one has to make room. */
export interface BoundedConnection {
  /** The peer's address. */
  readonly peer: string;
  /** It waits for a request, or for its peer to take the answer. */
  readonly isIdle: boolean;
  /** By a clock that only goes forward: when it was accepted, or has last answered. */
  readonly sinceMs: number;
  /** Ends it at once. */
  close(): void;
}

/** The least limit of connections. */
const MIN_CONNECTIONS = 2;

/**
 * Bounds the number of connections, in all and of each peer.
 *
 * A new connection is never kept waiting by old ones that do nothing: the peer that has the most gives up one, the oldest
 * of those that do nothing if there is any. So a peer that holds many takes room from itself first, also when all of its
 * connections are being answered. Among peers that have as few as the new one, none loses an answer.
 */
export class ConnectionTable<C extends BoundedConnection> {
  readonly #maxConnections: number;
  /** Fewer than those after a retreat. */
  #limit: number;
  readonly #maxPerPeer: number;
  readonly #all = new Set<C>();
  readonly #counts = new Map<string, number>();

  constructor(
    options: { readonly maxConnections: number; readonly maxPerPeer: number },
  ) {
    this.#maxConnections = options.maxConnections;
    this.#limit = options.maxConnections;
    this.#maxPerPeer = options.maxPerPeer;
  }

  /** The connections. */
  get all(): ReadonlySet<C> {
    return this.#all;
  }

  /** Adds a connection for which there is room. */
  add(connection: C): void {
    this.#all.add(connection);
    const { peer } = connection;
    this.#counts.set(peer, this.#countOf(peer) + 1);
  }

  /** Forgets a connection; twice is harmless. */
  delete(connection: C): void {
    if (!this.#all.delete(connection)) return;
    const { peer } = connection;
    const left = this.#countOf(peer) - 1;
    if (left > 0) this.#counts.set(peer, left);
    else this.#counts.delete(peer);
  }

  /** Makes sure that the peer may have one more, at the cost of another connection if need be; false if it may not. */
  makeRoom(peer: string): boolean {
    const count = this.#countOf(peer);
    if (count >= this.#maxPerPeer) {
      return this.#closeFirst((c) => c.peer === peer && c.isIdle);
    }
    if (this.#all.size < this.#limit) return true;
    return this.#closeFirst((c) =>
      c.isIdle || this.#countOf(c.peer) > count + 1
    );
  }

  /** Closes the connection that can best be done without; false if there is none. */
  closeOne(): boolean {
    return this.#closeFirst((connection) => connection.isIdle);
  }

  #closeFirst(mayClose: (connection: C) => boolean): boolean {
    let victim: C | undefined;
    for (const connection of this.#all) {
      if (!mayClose(connection)) continue;
      if (victim === undefined || this.#goesBefore(connection, victim)) {
        victim = connection;
      }
    }
    if (victim === undefined) return false;
    this.delete(victim);
    victim.close();
    return true;
  }

  /** Makes do with half of the connections that there are, until `recover()`: their descriptors are needed elsewhere. */
  retreat(): void {
    this.#limit = Math.max(MIN_CONNECTIONS, Math.floor(this.#all.size / 2));
    while (this.#all.size > this.#limit && this.closeOne());
  }

  /** Restores the first limit. */
  recover(): void {
    this.#limit = this.#maxConnections;
  }

  #goesBefore(one: C, other: C): boolean {
    const difference = this.#countOf(one.peer) - this.#countOf(other.peer);
    if (difference !== 0) return difference > 0;
    if (one.isIdle !== other.isIdle) return one.isIdle;
    return one.sinceMs < other.sinceMs;
  }

  #countOf(peer: string): number {
    return this.#counts.get(peer) ?? 0;
  }
}
