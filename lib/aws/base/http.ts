import { abortable, isTimeout, withTimeout } from "../../async/mod.ts";
import { AwsNoAnswerError } from "./errors.ts";
import type { HttpRequest } from "./sign.ts";

/** A page of 1,000 network interfaces with 50 addresses each has some 16 MiB. */
const MAX_BYTES = 32 * 1024 * 1024;

/** A whole answer. */
export interface HttpAnswer {
  readonly status: number;
  readonly headers: Headers;
  readonly body: string;
}

/** How {@linkcode HttpClient} makes its requests. */
export interface HttpClientOptions {
  /** What is asked, for errors: "EC2", "the instance metadata service". */
  readonly peer: string;
  /** Where it is, as an URL. */
  readonly endpoint: string;
  /** For each request, the answer included. */
  readonly timeoutMs: number;
  /** The most that is read of an answer. Default 32 MiB. */
  readonly maxBytes?: number | undefined;
  /** Connects to the endpoint itself, also when the environment names a proxy: metadata and keys are of this machine only. */
  readonly isLocal?: boolean;
  /**
   * Makes a connection for each request. On one that was used before, Deno 2.9.6 sends a request again, a POST too, when
   * the peer closes it without an answer.
   */
  readonly once?: boolean;
}

/** Requests to one endpoint, bounded in time and size. */
export class HttpClient implements Disposable {
  readonly #options: HttpClientOptions;
  readonly #client: Deno.HttpClient;

  /** @throws {SyntaxError} when the endpoint is not a URL of http or https */
  constructor(options: HttpClientOptions) {
    this.#options = options;
    const url = URL.parse(options.endpoint);
    if (url === null || !/^https?:$/.test(url.protocol)) {
      throw new SyntaxError(
        `Cannot use "${options.endpoint}" as endpoint of ${options.peer}: needs the form http://HOST:PORT or https://HOST`,
      );
    }
    // One connection for each request under way: one that is dead holds no other up.
    this.#client = Deno.createHttpClient({
      http2: false,
      ...(options.once ? { poolMaxIdlePerHost: 0 } : {}),
      // Only then, since Deno names the host in the request line to a proxy: servers have to take that, not all do.
      ...(options.isLocal && hasProxy() ? { proxy: directTo(url) } : {}),
    });
  }

  /**
   * Sends the request and reads the whole answer, of any status. Redirects are not followed.
   *
   * @throws {AwsNoAnswerError} when there is no whole answer in time: whether the peer acted is not known then
   * @throws the signal's reason
   */
  async send(
    request: HttpRequest,
    { signal }: { readonly signal?: AbortSignal | undefined } = {},
  ): Promise<HttpAnswer> {
    const { peer, endpoint, timeoutMs } = this.#options;
    try {
      return await withTimeout(
        timeoutMs,
        (limited) => this.#exchange(request, limited),
        { signal },
      );
    } catch (cause) {
      if (signal?.aborted) throw signal.reason;
      const why = isTimeout(cause)
        ? `no answer within ${timeoutMs} ms`
        : reasonOf(cause);
      throw new AwsNoAnswerError(
        `Cannot reach ${peer} at "${endpoint}": ${why}`,
        { cause },
      );
    }
  }

  async #exchange(
    { method, url, headers, body }: HttpRequest,
    signal: AbortSignal,
  ): Promise<HttpAnswer> {
    const response = await fetch(url, {
      method,
      client: this.#client,
      redirect: "manual",
      headers: { ...headers },
      signal,
      ...(body === undefined ? {} : { body }),
    });
    const { maxBytes = MAX_BYTES } = this.#options;
    const text = await readText(response, { maxBytes, signal });
    return { status: response.status, headers: response.headers, body: text };
  }

  /** Closes its connections. */
  [Symbol.dispose](): void {
    this.#client.close();
  }
}

/** Whether Deno takes a proxy from the environment. */
function hasProxy(): boolean {
  return ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"]
    .some((name) => Deno.env.get(name) || Deno.env.get(name.toLowerCase()));
}

/** A connection to the host itself, which goes before any proxy of the environment. */
function directTo({ protocol, hostname, port }: URL): Deno.Proxy {
  const usual = protocol === "https:" ? 443 : 80;
  return {
    transport: "tcp",
    hostname: hostname.replace(/^\[(.*)\]$/, "$1"),
    port: port === "" ? usual : Number(port),
  };
}

async function readText(
  { body }: Response,
  { maxBytes, signal }: {
    readonly maxBytes: number;
    readonly signal: AbortSignal;
  },
): Promise<string> {
  if (body === null) return "";
  const reader = body.getReader();
  const decoder = new TextDecoder("utf-8", { fatal: true });
  let text = "";
  let bytes = 0;
  try {
    for (;;) {
      // In Deno 2.9.6 an abort does not always reach a body that is being read: see HttpTransport of lib/kube.
      const { done, value } = await abortable(reader.read(), signal);
      if (done) return text + decoder.decode();
      bytes += value.length;
      if (bytes > maxBytes) throw new RangeError(`more than ${maxBytes} bytes`);
      text += decoder.decode(value, { stream: true });
    }
  } finally {
    // Errors of the stream have been thrown already.
    await reader.cancel().catch(() => {});
  }
}

/** "fetch failed" alone does not help: its cause comes after it. */
function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const { message, cause } = error;
  return cause instanceof Error ? reasonOf(cause) : message;
}
