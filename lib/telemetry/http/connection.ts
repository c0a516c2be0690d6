import { sleep, startTimer } from "../../async/mod.ts";
import { getLogger } from "../base/log.ts";
import { encodeAnswer, encodeStreamHead, isEventStream } from "./answer.ts";
import type { BoundedConnection } from "./connection_table.ts";
import type { HttpLimits } from "./limits.ts";
import {
  BadRequestError,
  parseRequestHead,
  type RequestHead,
} from "./request_head.ts";

const log = getLogger("http");

/**
 * Answers a request of the peer with this address. An answer of type `text/event-stream` is sent as it comes, however
 * long it lasts; its body is cancelled when the connection ends.
 */
export type HttpHandler = (
  request: Request,
  peer: string,
) => Response | Promise<Response>;

/** Most heads are smaller. */
const FIRST_BUFFER_BYTES = 1024;
const HEAD_END = [13, 10, 13, 10] as const;
/** A peer that sends something bad may have to read why: it is not cut off while it sends. */
const LINGER_MS = 500;
const MAX_LINGER_BYTES = 64 * 1024;

/** After this the connection of a peer that does not take its answer may be closed. */
const UNTAKEN_MS = 1_000;

const decoder = new TextDecoder("latin1");

/** Options that a connection gets from its server. */
export interface HttpConnectionOptions {
  readonly limits: HttpLimits;
  readonly handler: HttpHandler;
  /** Aborted when the server ends: answers are finished, no request is taken. */
  readonly signal: AbortSignal;
  /** How long the peer has to wait before its next request, in ms. */
  readonly pause: () => number;
  /** Called with what the handler has thrown. */
  readonly onFailure: (err: unknown) => void;
}

/** A connection at work: requests come and are answered one after the other. */
export class HttpConnection implements BoundedConnection {
  readonly peer: string;
  readonly #socket: Deno.Conn;
  readonly #options: HttpConnectionOptions;
  #buffer = new Uint8Array(FIRST_BUFFER_BYTES);
  #length = 0;
  #isAnswering = false;
  /** When the answer was there to be taken. */
  #untakenSinceMs = Infinity;
  #isClosed = false;
  #hasAsked = false;
  #sinceMs = performance.now();

  constructor(
    socket: Deno.Conn,
    options: HttpConnectionOptions & { readonly peer: string },
  ) {
    this.#socket = socket;
    this.#options = options;
    this.peer = options.peer;
  }

  /** Its request has arrived, and the peer does not yet have the whole answer. */
  get isAnswering(): boolean {
    return this.#isAnswering;
  }

  get isIdle(): boolean {
    return !this.#isAnswering ||
      performance.now() - this.#untakenSinceMs > UNTAKEN_MS;
  }

  get sinceMs(): number {
    return this.#sinceMs;
  }

  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#socket.close();
  }

  /** Serves until the end of the connection. Never rejects. */
  async run(): Promise<void> {
    const { signal, pause } = this.#options;
    try {
      while (await this.#serveOne()) {
        this.#isAnswering = false;
        this.#sinceMs = performance.now();
        if (signal.aborted) break;
        const pauseMs = pause();
        if (pauseMs > 0) await sleep(pauseMs, { signal });
      }
    } catch (err) {
      // Peers go when they like, and may be gone for being slow.
      if (!this.#isClosed) log.debug("Cannot serve a connection", { err });
    } finally {
      this.close();
    }
  }

  /** Whether another request may follow. */
  async #serveOne(): Promise<boolean> {
    try {
      const head = await this.#readHead();
      if (head === undefined) return false;
      const body = await this.#readBody(head);
      if (body === undefined) return false;
      this.#isAnswering = true;
      return await this.#answer(head, body);
    } catch (error) {
      if (!(error instanceof BadRequestError)) throw error;
      await this.#refuse(error);
      return false;
    }
  }

  /** Undefined when the peer has gone, or is too slow. */
  async #readHead(): Promise<RequestHead | undefined> {
    const { limits } = this.#options;
    if (this.#length === 0) {
      const idleMs = this.#hasAsked ? limits.idleMs : limits.headMs;
      using _idle = startTimer(idleMs, () => this.close());
      if (!await this.#fill(limits.maxHeadBytes)) return undefined;
    }
    using _late = startTimer(limits.headMs, () => this.close());
    for (let searched = 0;;) {
      const end = this.#findHeadEnd(searched);
      if (end !== undefined) {
        const text = decoder.decode(this.#buffer.subarray(0, end));
        this.#drop(end + HEAD_END.length);
        this.#hasAsked = true;
        return parseRequestHead(text);
      }
      searched = Math.max(0, this.#length - HEAD_END.length + 1);
      if (this.#length >= limits.maxHeadBytes) {
        throw new BadRequestError(431, "the head is too long");
      }
      if (!await this.#fill(limits.maxHeadBytes)) return undefined;
    }
  }

  async #readBody(
    { contentLength }: RequestHead,
  ): Promise<Uint8Array<ArrayBuffer> | undefined> {
    const { limits } = this.#options;
    if (contentLength > limits.maxBodyBytes) {
      throw new BadRequestError(413, "the body is too long");
    }
    using _late = startTimer(limits.bodyMs, () => this.close());
    while (this.#length < contentLength) {
      if (!await this.#fill(contentLength)) return undefined;
    }
    const body = this.#buffer.slice(0, contentLength);
    this.#drop(contentLength);
    return body;
  }

  async #answer(
    head: RequestHead,
    body: Uint8Array<ArrayBuffer>,
  ): Promise<boolean> {
    const { limits, signal } = this.#options;
    using late = startTimer(limits.answerMs, () => this.close());
    const response = await this.#handle(head, body);
    if (isEventStream(response) && response.body !== null) {
      late[Symbol.dispose]();
      await this.#stream(response, response.body);
      return false;
    }
    const keepAlive = head.keepAlive && !signal.aborted;
    const isHead = head.method === "HEAD";
    await this.#write(await encodeAnswer(response, { isHead, keepAlive }));
    return keepAlive;
  }

  /** Between two events the connection waits, as others do between two requests. */
  async #stream(
    response: Response,
    body: ReadableStream<Uint8Array>,
  ): Promise<void> {
    const { idleMs } = this.#options.limits;
    const events = body.getReader();
    const gone = this.#untilGone().then(() => events.cancel());
    try {
      await this.#write(encodeStreamHead(response));
      for (;;) {
        this.#isAnswering = false;
        this.#sinceMs = performance.now();
        using _idle = startTimer(idleMs, () => this.close());
        const { value } = await events.read();
        if (value === undefined) return;
        this.#isAnswering = true;
        await this.#write(value);
      }
    } finally {
      this.close();
      await gone;
    }
  }

  /** Waits until the peer ends the connection, or says something that no answer can follow. Never rejects. */
  async #untilGone(): Promise<void> {
    await this.#socket.read(new Uint8Array(1)).catch(() => null);
    this.close();
  }

  async #handle(
    { method, target, headers }: RequestHead,
    body: Uint8Array<ArrayBuffer>,
  ): Promise<Response> {
    const hasBody = body.length > 0 && method !== "GET" && method !== "HEAD";
    const request = new Request(`http://localhost${target}`, {
      method,
      headers,
      body: hasBody ? body : null,
    });
    try {
      return await this.#options.handler(request, this.peer);
    } catch (err) {
      this.#options.onFailure(err);
      return new Response("internal error\n", { status: 500 });
    }
  }

  async #refuse({ status, message }: BadRequestError): Promise<void> {
    using _late = startTimer(LINGER_MS, () => this.close());
    const response = new Response(`${message}\n`, { status });
    const options = { isHead: false, keepAlive: false };
    await this.#write(await encodeAnswer(response, options));
    await this.#socket.closeWrite();
    for (let left = MAX_LINGER_BYTES; left > 0;) {
      const count = await this.#socket.read(this.#buffer);
      if (count === null) return;
      left -= count;
    }
  }

  /** The peer has to take some of it now and then. */
  async #write(bytes: Uint8Array): Promise<void> {
    const { stallMs } = this.#options.limits;
    this.#untakenSinceMs = performance.now();
    for (let rest = bytes; rest.length > 0;) {
      using _stalled = startTimer(stallMs, () => this.close());
      rest = rest.subarray(await this.#socket.write(rest));
    }
    this.#untakenSinceMs = Infinity;
  }

  /** Reads more, up to so many bytes in the buffer; false at the end. */
  async #fill(maxBytes: number): Promise<boolean> {
    if (this.#length === this.#buffer.length) {
      const size = Math.min(2 * this.#buffer.length, maxBytes);
      const larger = new Uint8Array(Math.max(size, this.#length + 1));
      larger.set(this.#buffer);
      this.#buffer = larger;
    }
    const count = await this.#socket.read(this.#buffer.subarray(this.#length));
    if (count === null) return false;
    this.#length += count;
    return true;
  }

  #drop(bytes: number): void {
    this.#buffer.copyWithin(0, bytes, this.#length);
    this.#length -= bytes;
    if (this.#length > 0) return;
    // A kept connection needs no more than a new one.
    if (this.#buffer.length > FIRST_BUFFER_BYTES) {
      this.#buffer = new Uint8Array(FIRST_BUFFER_BYTES);
    }
  }

  /** Where the empty line begins. */
  #findHeadEnd(from: number): number | undefined {
    const received = this.#buffer.subarray(0, this.#length);
    for (let at = from;; at++) {
      at = received.indexOf(HEAD_END[0], at);
      if (at < 0 || at + HEAD_END.length > received.length) return undefined;
      if (HEAD_END.every((byte, n) => received[at + n] === byte)) return at;
    }
  }
}
