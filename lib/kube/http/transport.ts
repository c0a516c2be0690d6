/** One HTTP request to the API server. */
export interface TransportRequest {
  readonly method: string;
  /** Path and query. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string;
  readonly signal?: AbortSignal | undefined;
}

/** Status, headers and whole body of an answer. */
export interface TransportResponse {
  readonly status: number;
  readonly headers: Headers;
  readonly body: string;
}

/** Status, headers and body of an answer whose body comes bit by bit. */
export interface TransportStream {
  readonly status: number;
  readonly headers: Headers;
  /**
   * To be iterated to its end or left by break or return, which ends the request. All chunks come in one buffer: what
   * is kept of one must be copied before the next one is asked for.
   */
  readonly chunks: AsyncIterable<Uint8Array>;
}

/** When a stream fails by itself. */
export interface StreamTimeouts {
  /** When nothing came over the connection for so long, for this stream or for others. */
  readonly idleTimeoutMs: number;
  /** When it has not ended before. */
  readonly maxDurationMs?: number | undefined;
}

/**
 * Carries requests to the API server: {@link HttpTransport}, or a function in unit tests.
 *
 * Rejects with the signal's reason when that aborts, else with KubeUnreachableError; an HTTP status is not a failure.
 */
export interface Transport {
  /** Host and port, for metrics. */
  readonly host: string;
  /** Sends a request and reads the whole answer within the time. */
  request(
    request: TransportRequest,
    options: { timeoutMs: number },
  ): Promise<TransportResponse>;
  /** Sends a request whose answer may be endless. */
  stream(
    request: TransportRequest,
    options: StreamTimeouts,
  ): Promise<TransportStream>;
  /** Reads the credentials again, as after status 401. */
  refreshCredentials(): Promise<void>;
  /** Ends the connections. */
  close(): void;
}

/** Where the API server is and who we are. */
export interface Connection {
  /** URL without a slash at its end. */
  readonly server: string;
  /** Certificates and proxy. */
  readonly tls: Deno.CreateHttpClientOptions;
  /** `authorization`, when it is not by certificate. */
  readonly headers: Readonly<Record<string, string>>;
}

/** Gives the connection's data, which may change: tokens and certificates are rotated. */
export interface ConnectionSource {
  /** URL of the API server, known without any reading. */
  readonly server: string;
  /** Returns the data as known at most a minute ago. */
  current(): Promise<Connection>;
  /** Reads the data again. */
  refresh(): Promise<void>;
  /** Has the next {@link ConnectionSource.current} read the data again: the server could not be reached with what is known. */
  expire?(): void;
}
