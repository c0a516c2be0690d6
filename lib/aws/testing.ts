/**
 * Real HTTP servers on the loopback device that answer as a test says.
 *
 * @module
 */

/** A request as it came. */
export interface SeenRequest {
  readonly method: string;
  /** With the query. */
  readonly path: string;
  readonly headers: Headers;
  readonly body: string;
}

/** Gets a request and how many there were, this one included. */
export type Answering = (
  request: SeenRequest,
  count: number,
) => Response | Promise<Response>;

/** A server that answers by a function and remembers all requests. */
export class LoopbackServer implements AsyncDisposable {
  readonly url: string;
  readonly seen: SeenRequest[] = [];
  readonly #server: Deno.HttpServer<Deno.NetAddr>;
  readonly #stop = new AbortController();

  constructor(answer: Answering) {
    this.#server = Deno.serve({
      port: 0,
      hostname: "127.0.0.1",
      signal: this.#stop.signal,
      onListen() {},
      onError: () => new Response(null, { status: 500 }),
    }, async (request) => {
      const { pathname, search } = new URL(request.url);
      const seen = {
        method: request.method,
        path: pathname + search,
        headers: request.headers,
        body: await request.text(),
      };
      return await answer(seen, this.seen.push(seen));
    });
    this.url = `http://127.0.0.1:${this.#server.addr.port}`;
  }

  /** The forms of all requests, in their order. */
  get forms(): Record<string, string>[] {
    return this.seen.map(({ body }) =>
      Object.fromEntries(new URLSearchParams(body))
    );
  }

  /** Also while requests are not answered. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    await this.#server.finished.catch(() => {});
  }
}

/** An answer that refuses, as EC2 writes it. */
export function ec2Refusal(code: string, status: number = 400): Response {
  return new Response(
    `<?xml version="1.0" encoding="UTF-8"?>\n<Response><Errors><Error>` +
      `<Code>${code}</Code><Message>No.</Message></Error></Errors>` +
      `<RequestID>r-1</RequestID></Response>`,
    { status },
  );
}
