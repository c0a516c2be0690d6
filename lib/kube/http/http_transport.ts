import { abortable, isTimeout, onAbort, withTimeout } from "../../async/mod.ts";
import { describeError } from "../../telemetry/mod.ts";
import { KubeUnreachableError } from "./errors.ts";
import type {
  Connection,
  ConnectionSource,
  StreamTimeouts,
  Transport,
  TransportRequest,
  TransportResponse,
  TransportStream,
} from "./transport.ts";

/** A request that got less time than this says nothing about its connection. */
const LEAST_SILENCE_MS = 250;
/** The most that is read of an answer at a time. */
const READ_BYTES = 32 * 1024;
/** What HTTP allows in a field's value: RFC 9110, section 5.5. */
const FIELD_VALUE = /^[\t\x20-\x7e\x80-\xff]*$/;

/** Connections that live and die together: one HTTP/2 connection carries all requests. */
interface Session {
  readonly tlsKey: string;
  readonly client: Deno.HttpClient;
  /** Aborts when the session is given up. */
  readonly controller: AbortController;
  lastActivityMs: number;
}

/**
 * {@link Transport} over HTTP/2 (HTTP/1.1 where the server has no other).
 *
 * One connection for all: faster than many under load and one instead of dozens on the server. A connection that died
 * without a word would hold every later request, so it is given up, with all that is on it, when a request timed out
 * and nothing came over it in the meantime.
 */
export class HttpTransport implements Transport {
  readonly #source: ConnectionSource;
  #session: Session | undefined;
  #isClosed = false;

  constructor(source: ConnectionSource) {
    this.#source = source;
  }

  get host(): string {
    return new URL(this.#source.server).host;
  }

  async request(
    request: TransportRequest,
    options: { timeoutMs: number },
  ): Promise<TransportResponse> {
    const sentMs = performance.now();
    let session: Session | undefined;
    try {
      return await withTimeout(options.timeoutMs, async (signal) => {
        const connection = await abortable(this.#source.current(), signal);
        session = this.#sessionFor(connection);
        using joined = joinSignals([signal, session.controller.signal]);
        const response = await this.#fetch(session, connection, {
          ...request,
          signal: joined.signal,
        });
        const body = await readText(response.body, joined.signal);
        session.lastActivityMs = performance.now();
        const { status, headers } = response;
        return { status, headers, body };
      }, { signal: request.signal });
    } catch (err) {
      throw this.#failure(err, { request, session, sentMs });
    }
  }

  async stream(
    request: TransportRequest,
    options: StreamTimeouts,
  ): Promise<TransportStream> {
    const { idleTimeoutMs } = options;
    // What comes for others shows that the connection lives.
    const idle = new IdleGuard({
      ...options,
      lastActivityMs: () => session?.lastActivityMs ?? -Infinity,
    });
    let session: Session | undefined;
    let joined: ReturnType<typeof joinSignals> | undefined;
    const failure = (err: unknown) => {
      const sentMs = performance.now() - idleTimeoutMs;
      return this.#failure(err, { request, session, sentMs });
    };
    const end = () => {
      idle[Symbol.dispose]();
      joined?.[Symbol.dispose]();
    };
    try {
      const connection = await this.#connection([request.signal, idle.signal]);
      session = this.#sessionFor(connection);
      const signals = [request.signal, session.controller.signal, idle.signal];
      joined = joinSignals(signals);
      const response = await this.#fetch(session, connection, {
        ...request,
        signal: joined.signal,
      });
      const chunks = readChunks(response.body, {
        signal: joined.signal,
        onChunk: () => {
          if (session !== undefined) session.lastActivityMs = performance.now();
        },
        failure,
        end,
      });
      return { status: response.status, headers: response.headers, chunks };
    } catch (err) {
      end();
      throw failure(err);
    }
  }

  async refreshCredentials(): Promise<void> {
    await this.#source.refresh();
  }

  /** Ends what is under way; later requests fail. */
  close(): void {
    this.#isClosed = true;
    this.#giveUp(this.#session, "The client is closed");
  }

  /** The connection's data; a plugin that gives credentials may hang. */
  async #connection(
    signals: readonly (AbortSignal | undefined)[],
  ): Promise<Connection> {
    using joined = joinSignals(signals);
    return await abortable(this.#source.current(), joined.signal);
  }

  #sessionFor(connection: Connection): Session {
    if (this.#isClosed) throw new Error("the client is closed");
    const tlsKey = JSON.stringify(connection.tls);
    if (this.#session?.tlsKey === tlsKey) return this.#session;
    // Requests under way finish on the old connection.
    this.#session?.client.close();
    this.#session = {
      tlsKey,
      client: Deno.createHttpClient(connection.tls),
      controller: new AbortController(),
      lastActivityMs: -Infinity,
    };
    return this.#session;
  }

  async #fetch(
    session: Session,
    connection: Connection,
    request: TransportRequest,
  ): Promise<Response> {
    checkHeaders(connection.headers);
    const response = await fetch(connection.server + request.path, {
      method: request.method,
      client: session.client,
      redirect: "manual",
      headers: { ...request.headers, ...connection.headers },
      ...(request.body === undefined ? {} : { body: request.body }),
      ...(request.signal === undefined ? {} : { signal: request.signal }),
    });
    session.lastActivityMs = performance.now();
    return response;
  }

  /** What to throw for a failed request. Gives up a session that shows no life, and has files read again. */
  #failure(
    cause: unknown,
    context: {
      request: TransportRequest;
      session: Session | undefined;
      sentMs: number;
    },
  ): unknown {
    const { request, session, sentMs } = context;
    if (request.signal?.aborted) return request.signal.reason;
    const isSilent = session !== undefined &&
      session.lastActivityMs <= sentMs &&
      performance.now() - sentMs >= LEAST_SILENCE_MS;
    if (isTimeout(cause) && isSilent) {
      this.#giveUp(session, "The connection is dead");
    }
    this.#source.expire?.();
    const path = request.path.split("?")[0];
    // "fetch failed" alone does not help: its cause comes after it.
    const why = describeError(cause);
    return new KubeUnreachableError(
      `Cannot ${request.method} "${path}" at ${this.#source.server}: ${why}`,
      { cause },
    );
  }

  #giveUp(session: Session | undefined, why: string): void {
    if (session === undefined || session.controller.signal.aborted) return;
    session.controller.abort(new Error(why));
    if (this.#session !== session) return;
    this.#session = undefined;
    session.client.close();
  }
}

/** fetch() would have the bad value, which may be a token, in its error. */
function checkHeaders(headers: Readonly<Record<string, string>>): void {
  for (const [name, value] of Object.entries(headers)) {
    if (FIELD_VALUE.test(value)) continue;
    throw new Error(
      `the value of header "${name}" has characters that HTTP does not allow`,
    );
  }
}

/** Aborts its signal when there was no activity for so long, or when the stream is too old. */
class IdleGuard implements Disposable {
  readonly #controller = new AbortController();
  readonly #timer: ReturnType<typeof setInterval>;

  constructor(options: StreamTimeouts & { lastActivityMs: () => number }) {
    const { idleTimeoutMs, maxDurationMs = Infinity } = options;
    const startMs = performance.now();
    this.#timer = setInterval(() => {
      const nowMs = performance.now();
      const lastMs = Math.max(startMs, options.lastActivityMs());
      if (nowMs - lastMs >= idleTimeoutMs) {
        this.#abort(`no data for ${idleTimeoutMs} ms`);
      } else if (nowMs - startMs >= maxDurationMs) {
        this.#abort(`the server did not end it within ${maxDurationMs} ms`);
      }
    }, Math.max(10, idleTimeoutMs / 10));
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  #abort(why: string): void {
    this.#controller.abort(new DOMException(why, "TimeoutError"));
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
  }
}

/** Like `AbortSignal.any`, but leaves nothing on the long-lived signals after its disposal. */
function joinSignals(
  signals: readonly (AbortSignal | undefined)[],
): { readonly signal: AbortSignal } & Disposable {
  const controller = new AbortController();
  const listening = new DisposableStack();
  for (const signal of signals) {
    listening.use(onAbort(signal, () => controller.abort(signal?.reason)));
  }
  return {
    signal: controller.signal,
    [Symbol.dispose]: () => listening.dispose(),
  };
}

/** Yields what comes, in one buffer for all: each chunk is gone when the next one is asked for. */
async function* readChunks(
  body: ReadableStream<Uint8Array> | null,
  hooks: {
    signal: AbortSignal;
    onChunk: () => void;
    failure: (err: unknown) => unknown;
    end: () => void;
  },
): AsyncGenerator<Uint8Array, void, undefined> {
  const { signal } = hooks;
  const reader = body?.getReader({ mode: "byob" });
  let buffer = new Uint8Array(READ_BYTES);
  // Deno 2.9.6 forgets the signal of a fetch soon after the answer has begun:
  // an abort would leave the read pending for ever.
  const cancel = () => void reader?.cancel(signal.reason).catch(() => {});
  using _listening = onAbort(signal, cancel);
  try {
    while (reader !== undefined) {
      signal.throwIfAborted();
      const { done, value } = await reader.read(buffer);
      signal.throwIfAborted();
      if (done) break;
      hooks.onChunk();
      yield value;
      buffer = new Uint8Array(value.buffer);
    }
  } catch (err) {
    throw hooks.failure(err);
  } finally {
    hooks.end();
    // Errors of the stream have been thrown already, to the reader.
    await reader?.cancel().catch(() => {});
  }
}

/** Reads a whole body as text. */
async function readText(
  body: ReadableStream<Uint8Array> | null,
  signal: AbortSignal,
): Promise<string> {
  const decoder = new TextDecoder();
  const parts: string[] = [];
  const chunks = readChunks(body, {
    signal,
    onChunk: () => {},
    failure: (err) => err,
    end: () => {},
  });
  for await (const chunk of chunks) {
    parts.push(decoder.decode(chunk, { stream: true }));
  }
  parts.push(decoder.decode());
  return parts.join("");
}
