import { Backoff, sleep } from "../../async/mod.ts";
import { ByteCollector } from "../../bytes/mod.ts";
import { KubeApiError, KubeUnreachableError, parseApiError } from "./errors.ts";
import type { CallOptions } from "./options.ts";
import { refusalText } from "./protobuf_answer.ts";
import type { PathParts } from "../api/resource.ts";
import type {
  StreamTimeouts,
  Transport,
  TransportRequest,
  TransportStream,
} from "./transport.ts";

const REQUEST_TIMEOUT_MS = 30_000;
const MAX_ATTEMPTS = 4;
const MAX_RETRY_AFTER_MS = 10_000;
const JSON_TYPE = "application/json";

/** One finished request, for metrics; a watch counts when it begins. */
export interface RequestInfo {
  readonly verb: string;
  /** Plural of the kind; empty for paths without one. */
  readonly resource: string;
  readonly method: string;
  /** Host and port of the API server. */
  readonly host: string;
  /** HTTP status as text, or "<error>" when there was no answer, as client-go has it. */
  readonly code: string;
}

/** A request before it is one. */
export interface KubeCall extends PathParts {
  readonly verb: string;
  readonly method: string;
  /** Path with its query. */
  readonly path: string;
  /** Plural of the kind; empty for paths without one. */
  readonly resource: string;
  readonly kind?: string;
  readonly body?: unknown;
  readonly contentType?: string | undefined;
  readonly accept?: string;
  readonly options: CallOptions;
}

export interface RequesterOptions {
  readonly userAgent?: string | undefined;
  readonly onRequest?: ((info: RequestInfo) => void) | undefined;
}

/** Sends calls over a transport: retries, renewed credentials, errors and metrics. */
export class Requester {
  readonly transport: Transport;
  readonly #options: RequesterOptions;
  /** Kept for the next page of a list: megabytes outside of its heap make V8 collect garbage much too often. */
  #spare: ByteCollector | undefined;

  constructor(transport: Transport, options: RequesterOptions = {}) {
    this.transport = transport;
    this.#options = options;
  }

  /** Sends a call, again when it is a GET that failed for now, and returns the answer's body. */
  send(call: KubeCall): Promise<string> {
    const request = this.#requestOf(call);
    return this.#repeated(call, async (timeoutMs) => {
      const answer = await this.#authorized(
        call,
        () => this.transport.request(request, { timeoutMs }),
      );
      if (answer.status >= 200 && answer.status < 300) return answer.body;
      throw parseApiError(describe(call), answer);
    });
  }

  /** As {@linkcode send}, for a body that is not text; it is gone when `parse` returns. */
  async sendForBytes<R>(
    call: KubeCall,
    parse: (body: Uint8Array) => R,
  ): Promise<R> {
    const body = await this.#repeated(call, async (timeoutMs) => {
      const timeouts = { idleTimeoutMs: timeoutMs, maxDurationMs: timeoutMs };
      const collected = this.#spare ?? new ByteCollector();
      this.#spare = undefined;
      collected.clear();
      for await (const chunk of await this.stream(call, timeouts)) {
        collected.add(chunk);
      }
      return collected;
    });
    const result = parse(body.bytes);
    this.#spare = body;
    return result;
  }

  /** Makes an attempt, and more of a GET that failed for now, as long as the call has time. */
  async #repeated<R>(
    call: KubeCall,
    attemptOnce: (timeoutMs: number) => Promise<R>,
  ): Promise<R> {
    const { signal, timeoutMs = REQUEST_TIMEOUT_MS } = call.options;
    const deadline = performance.now() + timeoutMs;
    const backoff = new Backoff({ initialMs: 100, maxMs: 2_000 });
    for (let attempt = 1;; attempt++) {
      const leftMs = Math.max(1, Math.round(deadline - performance.now()));
      let failure: KubeApiError | KubeUnreachableError;
      try {
        return await attemptOnce(leftMs);
      } catch (err) {
        const isAnswer = err instanceof KubeApiError ||
          err instanceof KubeUnreachableError;
        if (!isAnswer) throw err;
        failure = err;
      }
      const delayMs = retryDelayMs(failure, backoff);
      const again = call.method === "GET" && attempt < MAX_ATTEMPTS &&
        delayMs !== undefined && performance.now() + delayMs < deadline;
      if (!again) throw failure;
      await sleep(delayMs, { signal });
    }
  }

  /** Sends a call once and returns the answer's body bit by bit. @throws {KubeApiError} when its status is not 200. */
  async stream(
    call: KubeCall,
    options: StreamTimeouts,
  ): Promise<TransportStream["chunks"]> {
    const request = this.#requestOf(call);
    const stream = await this.#authorized(
      call,
      () => this.transport.stream(request, options),
    );
    if (stream.status === 200) return stream.chunks;
    const collected = new ByteCollector();
    for await (const chunk of stream.chunks) collected.add(chunk);
    const body = refusalText(collected.bytes);
    const { status, headers } = stream;
    throw parseApiError(describe(call), { status, headers, body });
  }

  /** Sends once, and once more with credentials read again when they were refused. */
  async #authorized<R extends { status: number }>(
    call: KubeCall,
    send: () => Promise<R>,
  ): Promise<R> {
    const answer = await this.#counted(call, send);
    if (answer.status !== 401) return answer;
    call.options.signal?.throwIfAborted();
    await this.transport.refreshCredentials();
    return await this.#counted(call, send);
  }

  async #counted<R extends { status: number }>(
    call: KubeCall,
    send: () => Promise<R>,
  ): Promise<R> {
    const report = (code: string) =>
      this.#options.onRequest?.({
        verb: call.verb,
        resource: call.resource,
        method: call.method,
        host: this.transport.host,
        code,
      });
    try {
      const answer = await send();
      report(String(answer.status));
      return answer;
    } catch (err) {
      report("<error>");
      throw err;
    }
  }

  #requestOf(call: KubeCall): TransportRequest {
    const { userAgent } = this.#options;
    return {
      method: call.method,
      path: call.path,
      headers: {
        accept: call.accept ?? JSON_TYPE,
        ...(userAgent === undefined ? {} : { "user-agent": userAgent }),
        ...(call.body === undefined
          ? {}
          : { "content-type": call.contentType ?? JSON_TYPE }),
      },
      ...(call.body === undefined ? {} : { body: JSON.stringify(call.body) }),
      signal: call.options.signal,
    };
  }
}

/** How long to wait before another attempt; undefined when it would not help. */
function retryDelayMs(
  failure: KubeApiError | KubeUnreachableError,
  backoff: Backoff,
): number | undefined {
  if (failure instanceof KubeUnreachableError) return backoff.nextMs();
  if (!failure.isTransient) return undefined;
  const wantedMs = Math.min(failure.retryAfterMs ?? 0, MAX_RETRY_AFTER_MS);
  return wantedMs + backoff.nextMs();
}

function describe(call: KubeCall): string {
  if (call.kind === undefined) return `${call.method} "${call.path}"`;
  if (call.name === undefined) return `${call.verb} ${call.resource}`;
  const key = call.namespace === undefined
    ? call.name
    : `${call.namespace}/${call.name}`;
  return `${call.verb} ${call.kind} "${key}"`;
}
