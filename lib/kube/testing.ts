/**
 * Doubles for unit tests: a transport that is a function, and a clock that is turned by hand.
 *
 * @module
 */
import type {
  Transport,
  TransportRequest,
  TransportResponse,
  TransportStream,
} from "./http/transport.ts";

/** What a {@link FakeTransport}'s function answers. */
export interface FakeAnswer {
  /** Default 200. */
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
  /** Text, or what becomes JSON. */
  readonly body?: unknown;
  /** A body that comes bit by bit; each value is sent as JSON and a line end, text as it is. */
  readonly lines?: AsyncIterable<unknown>;
}

/**
 * A {@link Transport} that calls a function for each request and remembers them. Watches that begin with all objects it
 * refuses unseen, as a server without WatchList does, unless it is told to pass them on.
 */
export class FakeTransport implements Transport {
  readonly host = "fake:6443";
  /** All requests so far. */
  readonly requests: TransportRequest[] = [];
  /** How often credentials were to be read again. */
  refreshes = 0;
  readonly #answer: (
    request: TransportRequest,
  ) => FakeAnswer | Promise<FakeAnswer>;

  readonly #streamsLists: boolean;

  constructor(
    answer: (request: TransportRequest) => FakeAnswer | Promise<FakeAnswer>,
    { streamsLists = false }: { readonly streamsLists?: boolean } = {},
  ) {
    this.#answer = answer;
    this.#streamsLists = streamsLists;
  }

  async request(request: TransportRequest): Promise<TransportResponse> {
    const stream = await this.stream(request);
    const { status, headers } = stream;
    const decoder = new TextDecoder();
    let body = "";
    for await (const chunk of stream.chunks) body += decoder.decode(chunk);
    return { status, headers, body };
  }

  async stream(request: TransportRequest): Promise<TransportStream> {
    request.signal?.throwIfAborted();
    const isRefused = !this.#streamsLists &&
      request.path.includes("sendInitialEvents=");
    if (!isRefused) this.requests.push(request);
    const answer: FakeAnswer = isRefused
      ? { status: 422 }
      : await this.#answer(request);
    const encoder = new TextEncoder();
    async function* chunks() {
      if (answer.lines === undefined) {
        yield encoder.encode(asText(answer.body ?? ""));
        return;
      }
      for await (const line of answer.lines) {
        request.signal?.throwIfAborted();
        const isText = typeof line === "string";
        yield encoder.encode(isText ? line : `${JSON.stringify(line)}\n`);
      }
    }
    const headers = new Headers(answer.headers);
    return { status: answer.status ?? 200, headers, chunks: chunks() };
  }

  refreshCredentials(): Promise<void> {
    this.refreshes++;
    return Promise.resolve();
  }

  close(): void {}
}

function asText(body: unknown): string {
  return typeof body === "string" ? body : JSON.stringify(body);
}
