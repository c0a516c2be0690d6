import {
  abortable,
  Backoff,
  type Clock,
  retry,
  SingleFlight,
  systemClock,
  type WaitOptions,
} from "../../async/mod.ts";
import { getLogger } from "../../telemetry/mod.ts";
import { AwsNoAnswerError } from "../base/errors.ts";
import { type HttpAnswer, HttpClient } from "../base/http.ts";
import { checkPrintable, type HttpRequest } from "../base/sign.ts";

const log = getLogger("aws");

const ENDPOINT = "http://169.254.169.254";
const PEER = "the instance metadata service";
const TIMEOUT_MS = 3_000;
const MAX_BYTES = 64 * 1024;
const MAX_ATTEMPTS = 3;
const BACKOFF = { initialMs: 100, maxMs: 1_000, jitter: 1 };
/** The longest life of a token, six hours. */
const TOKEN_S = 21_600;
/** A token that is about to end is not used. */
const TOKEN_LEAST_MS = 60_000;

/** How an {@linkcode ImdsClient} works. */
export interface ImdsClientOptions {
  /** Where AWS_EC2_METADATA_SERVICE_ENDPOINT is looked up. */
  readonly env: Pick<Deno.Env, "get">;
  /** For each attempt. Default 3 s. */
  readonly timeoutMs?: number;
  readonly clock?: Clock;
}

/** A refusal of the instance metadata service. */
export class ImdsError extends Error {
  /** The name of the class. */
  override readonly name = "ImdsError";
  /** HTTP status. */
  readonly status: number;

  constructor(message: string, { status }: { readonly status: number }) {
    super(message);
    this.status = status;
  }

  /** The same request may succeed later. */
  get isTransient(): boolean {
    return this.status >= 500 || this.status === 429;
  }
}

interface Token {
  readonly text: string;
  readonly endMs: number;
}

/**
 * Asks the instance metadata service, version 2 alone: each request has a token, which is got once in six hours.
 *
 * Paths are those below `/latest/`, for example `meta-data/instance-id`.
 */
export class ImdsClient implements Disposable {
  readonly #endpoint: string;
  readonly #clock: Clock;
  readonly #http: HttpClient;
  readonly #renewal = new SingleFlight<Token>();
  #token: Token | undefined;

  /** @throws {SyntaxError} when the environment's endpoint is not a URL of http or https */
  constructor(
    { env, timeoutMs = TIMEOUT_MS, clock = systemClock }: ImdsClientOptions,
  ) {
    const endpoint = env.get("AWS_EC2_METADATA_SERVICE_ENDPOINT") || ENDPOINT;
    this.#endpoint = endpoint.replace(/\/+$/, "");
    this.#clock = clock;
    this.#http = new HttpClient({
      peer: PEER,
      endpoint,
      timeoutMs,
      maxBytes: MAX_BYTES,
      isLocal: true,
    });
  }

  /**
   * The value of a key.
   *
   * @throws {ImdsError} when there is none (404), or it is refused
   * @throws {AwsNoAnswerError} when there is no answer in time
   */
  async get(path: string, options: WaitOptions = {}): Promise<string> {
    return (await this.answer(path, options)).body;
  }

  /** The value of a key; undefined where there is none. @throws as {@linkcode get} */
  async tryGet(
    path: string,
    options: WaitOptions = {},
  ): Promise<string | undefined> {
    try {
      return await this.get(path, options);
    } catch (error) {
      if (error instanceof ImdsError && error.status === 404) return undefined;
      throw error;
    }
  }

  /** The lines of a value; an empty list when the key does not exist. @throws as {@linkcode get} */
  async list(path: string, options: WaitOptions = {}): Promise<string[]> {
    const text = await this.tryGet(path, options) ?? "";
    return text.split("\n").map((line) => line.trim())
      .filter((line) => line !== "");
  }

  /** A key's value with its header fields. @throws as {@linkcode get} */
  async answer(
    path: string,
    { signal }: WaitOptions = {},
  ): Promise<HttpAnswer> {
    return await this.#again(path, async () => {
      const token = await this.#currentToken(signal);
      const first = await this.#getOnce(path, { token, signal });
      if (first.status !== 401) return this.#checked(path, first);
      // No longer good. Others may have got a new one since.
      if (this.#token === token) this.#token = undefined;
      return this.#checked(
        path,
        await this.#getOnce(path, {
          token: await this.#currentToken(signal),
          signal,
        }),
      );
    }, signal);
  }

  /** Closes its connections. */
  [Symbol.dispose](): void {
    this.#http[Symbol.dispose]();
  }

  /** Makes another attempt where it can help. */
  async #again<T>(
    path: string,
    fn: () => Promise<T>,
    signal: AbortSignal | undefined,
  ): Promise<T> {
    return await retry(fn, {
      signal,
      clock: this.#clock,
      backoff: new Backoff(BACKOFF),
      maxAttempts: MAX_ATTEMPTS,
      shouldRetry(error, attempt) {
        const again = error instanceof AwsNoAnswerError ||
          error instanceof ImdsError && error.isTransient;
        if (again && attempt < MAX_ATTEMPTS) {
          log.info("Retrying a request to the instance metadata service", {
            path,
            attempt: attempt + 1,
            err: error,
          });
        }
        return again;
      },
    });
  }

  async #getOnce(
    path: string,
    { token, signal }: {
      readonly token: Token;
      readonly signal: AbortSignal | undefined;
    },
  ): Promise<HttpAnswer> {
    return await this.#send("GET", path, {
      headers: { "x-aws-ec2-metadata-token": token.text },
      signal,
    });
  }

  #checked(path: string, answer: HttpAnswer): HttpAnswer {
    const { status } = answer;
    if (status === 200) return answer;
    throw new ImdsError(
      `Cannot read "${path}" from ${PEER}: HTTP status ${status}`,
      { status },
    );
  }

  async #currentToken(signal: AbortSignal | undefined): Promise<Token> {
    const token = this.#token;
    const leastMs = this.#clock.nowMs() + TOKEN_LEAST_MS;
    if (token !== undefined && token.endMs >= leastMs) return token;
    const renewed = this.#renewal.do("", () => this.#renewToken());
    return await abortable(renewed, signal);
  }

  async #renewToken(): Promise<Token> {
    const nowMs = this.#clock.nowMs();
    const { status, body } = await this.#putToken();
    if (status !== 200) {
      throw new ImdsError(
        `Cannot get a token from ${PEER}: HTTP status ${status}` +
          (status === 403
            ? "; enable it for the instance (aws ec2 modify-instance-metadata-options --http-endpoint enabled)"
            : ""),
        { status },
      );
    }
    checkPrintable(`the token of ${PEER}`, body);
    this.#token = { text: body, endMs: nowMs + TOKEN_S * 1_000 };
    return this.#token;
  }

  async #putToken(): Promise<HttpAnswer> {
    try {
      return await this.#send("PUT", "api/token", {
        headers: { "x-aws-ec2-metadata-token-ttl-seconds": `${TOKEN_S}` },
      });
    } catch (cause) {
      if (!(cause instanceof AwsNoAnswerError)) throw cause;
      throw new AwsNoAnswerError(
        `${cause.message}; without hostNetwork it takes a hop limit of 2 (aws ec2 modify-instance-metadata-options --http-put-response-hop-limit 2)`,
        { cause },
      );
    }
  }

  async #send(
    method: "GET" | "PUT",
    path: string,
    { headers, signal }: {
      readonly headers: HttpRequest["headers"];
      readonly signal?: AbortSignal | undefined;
    },
  ): Promise<HttpAnswer> {
    const url = `${this.#endpoint}/latest/${path}`;
    return await this.#http.send({ method, url, headers }, { signal });
  }
}
