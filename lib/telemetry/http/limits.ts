/** The bounds of an HTTP server. */
export interface HttpLimits {
  /** Connections in all. */
  readonly maxConnections: number;
  /** Connections of one address. */
  readonly maxPerPeer: number;
  /** Connections and requests of one address in a second, on average; twice as many at once. */
  readonly perSecond: number;
  /** Bytes of a request's head. */
  readonly maxHeadBytes: number;
  /** Bytes of a request's body. */
  readonly maxBodyBytes: number;
  /** For the head, from its first byte; for the first head from the connection's start. */
  readonly headMs: number;
  /** For the body. */
  readonly bodyMs: number;
  /** For the handler, and for the peer to take the answer. */
  readonly answerMs: number;
  /** For the peer to take some of the answer. */
  readonly stallMs: number;
  /** Between two requests. */
  readonly idleMs: number;
}

/** Enough for a few scrapers and probes. A kept connection outlives Prometheus' usual intervals. */
export const DEFAULT_LIMITS: HttpLimits = {
  maxConnections: 64,
  maxPerPeer: 16,
  perSecond: 100,
  maxHeadBytes: 16 * 1024,
  maxBodyBytes: 8 * 1024,
  headMs: 5_000,
  bodyMs: 5_000,
  answerMs: 15_000,
  stallMs: 3_000,
  idleMs: 120_000,
};
