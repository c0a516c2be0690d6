/** A connection, as far as the decision goes which one has to make room. */
export interface BoundedConnection {
  /** The peer's address. */
  readonly peer: string;
  /** Its request has arrived and is being answered. */
  readonly isAnswering: boolean;
  /** By a clock that only goes forward: when it was accepted, or has last answered. */
  readonly sinceMs: number;
  /** Ends it at once. */
  close(): void;
}

/** So many are allowed in any case. */
const MIN_CONNECTIONS = 2;

/**
 * Bounds the number of connections, in all and of each peer.
 *
 * A new connection is never kept waiting by old ones that do nothing: the peer that has the most gives up its oldest
 * that is not being answered. So a peer that holds many takes room from itself first.
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
    if (this.#countOf(peer) >= this.#maxPerPeer) return this.closeOne(peer);
    return this.#all.size < this.#limit || this.closeOne();
  }

  /** Closes the connection, of the peer if one is given, that can best be done without; false if there is none. */
  closeOne(peer?: string): boolean {
    let victim: C | undefined;
    for (const connection of this.#all) {
      if (connection.isAnswering) continue;
      if (peer !== undefined && connection.peer !== peer) continue;
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

  /** Allows as many as at first. */
  recover(): void {
    this.#limit = this.#maxConnections;
  }

  #goesBefore(one: C, other: C): boolean {
    const difference = this.#countOf(one.peer) - this.#countOf(other.peer);
    return difference > 0 ||
      (difference === 0 && one.sinceMs < other.sinceMs);
  }

  #countOf(peer: string): number {
    return this.#counts.get(peer) ?? 0;
  }
}
