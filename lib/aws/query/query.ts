import type { WaitOptions } from "../../async/mod.ts";
import type { AwsCall, CallBudget } from "./budget.ts";
import type { CredentialSource } from "./credential_source.ts";
import { AwsError, AwsNoAnswerError } from "../base/errors.ts";
import { type HttpAnswer, HttpClient } from "../base/http.ts";
import type { Credentials, HttpRequest } from "../base/sign.ts";
import { childOf, parseXml, textAt, type XmlElement } from "../base/xml.ts";

const TIMEOUT_MS = 15_000;
const FORM = "application/x-www-form-urlencoded; charset=utf-8";

/** A value of the query protocol: lists are numbered from 1, names of objects joined with dots. */
export type QueryValue =
  | string
  | number
  | boolean
  | undefined
  | readonly QueryValue[]
  | { readonly [name: string]: QueryValue };

/** Parameters of a call, as AWS' reference names them. */
export type QueryParameters = { readonly [name: string]: QueryValue };

/** Which service is called, and how. */
export interface QueryClientOptions {
  /** Name of the service in signatures and IAM: "ec2" or "sts". */
  readonly service: string;
  /** The API's version, a date. */
  readonly version: string;
  readonly region: string;
  /** An URL, see {@linkcode endpointOf}. */
  readonly endpoint: string;
  /** Without them calls are not signed. */
  readonly credentials?: CredentialSource;
  readonly budget: CallBudget;
  /** For each attempt. Default 15 s. */
  readonly timeoutMs?: number | undefined;
}

/** Where a service of a region is, if the environment does not say so: by AWS_ENDPOINT_URL_EC2 or AWS_ENDPOINT_URL, for example. */
export function endpointOf(
  service: string,
  { region, env }: {
    readonly region: string;
    readonly env: Pick<Deno.Env, "get">;
  },
): string {
  const domain = region.startsWith("cn-")
    ? "amazonaws.com.cn"
    : "amazonaws.com";
  return env.get(`AWS_ENDPOINT_URL_${service.toUpperCase()}`) ||
    env.get("AWS_ENDPOINT_URL") ||
    `https://${service}.${region}.${domain}/`;
}

/** Makes calls of AWS' query protocol: a form there, XML back. */
export class QueryClient implements Disposable {
  readonly #options: QueryClientOptions;
  readonly #peer: string;
  readonly #http: HttpClient;

  /** @throws {SyntaxError} when the endpoint is not a URL of http or https */
  constructor(options: QueryClientOptions) {
    const { service, endpoint, timeoutMs = TIMEOUT_MS } = options;
    this.#options = options;
    this.#peer = service.toUpperCase();
    this.#http = new HttpClient({
      once: true,
      peer: this.#peer,
      endpoint,
      timeoutMs,
    });
  }

  /**
   * Makes a call and returns the root of its answer. The signal ends every wait but one: a change that was sent goes on,
   * since it would not be known whether it was made.
   *
   * @throws {AwsError} when AWS refuses it
   * @throws {AwsNoAnswerError} when there is no whole answer in time
   * @throws {CredentialsError} when there is nothing to sign with
   */
  async call(
    call: AwsCall,
    parameters: QueryParameters,
    { signal }: WaitOptions = {},
  ): Promise<XmlElement> {
    const { version: Version, budget } = this.#options;
    const form = [...pairsOf({ Action: call.name, Version, ...parameters })];
    const body = new URLSearchParams(form).toString();
    const { credentials } = this.#options;
    const sending = call.kind === "change" ? undefined : signal;
    return await budget.spend(call, async () => {
      const keys = await credentials?.current({ signal });
      try {
        return await this.#send(call, { body, keys, signal: sending });
      } catch (error) {
        const isOfKeys = error instanceof AwsError && error.hasBadKeys &&
          keys !== undefined;
        if (!isOfKeys || !credentials?.expire(keys)) throw error;
        // Keys of a role may end early. Others are tried once.
        const others = await credentials.current({ signal });
        return await this.#send(call, {
          body,
          keys: others,
          signal: sending,
        });
      }
    }, { signal });
  }

  /** Closes its connections. */
  [Symbol.dispose](): void {
    this.#http[Symbol.dispose]();
  }

  async #send(
    call: AwsCall,
    { body, keys, signal }: {
      readonly body: string;
      readonly keys: Credentials | undefined;
      readonly signal: AbortSignal | undefined;
    },
  ): Promise<XmlElement> {
    const { endpoint, service, region } = this.#options;
    const request: HttpRequest = {
      method: "POST",
      url: endpoint,
      headers: { "content-type": FORM },
      body,
    };
    const signed = await keys?.sign(request, { service, region }) ?? request;
    const answer = await this.#http.send(signed, { signal });
    if (answer.status !== 200) throw this.#refusal(call, answer);
    return this.#read(call, answer);
  }

  #read(call: AwsCall, { body }: HttpAnswer): XmlElement {
    const root = tryParseXml(body);
    if (
      !(root instanceof SyntaxError) && root.name === `${call.name}Response`
    ) {
      return root;
    }
    const why = root instanceof SyntaxError
      ? root.message
      : `the answer is a "${root.name}"`;
    throw new AwsNoAnswerError(
      `Cannot read the answer of ${this.#peer} to ${call.name}: ${why}`,
    );
  }

  #refusal(call: AwsCall, { status, body }: HttpAnswer): AwsError {
    const root = tryParseXml(body);
    const answer = root instanceof SyntaxError ? undefined : root;
    // EC2 has a list of errors, STS one.
    const error = childOf(childOf(answer, "Errors"), "Error") ??
      childOf(answer, "Error");
    return new AwsError({
      call: call.name,
      peer: this.#peer,
      service: this.#options.service,
      status,
      code: textAt(error, "Code") || `HTTP status ${status}`,
      reason: textAt(error, "Message") ?? "",
      requestId: textAt(answer, "RequestID") ?? textAt(answer, "RequestId"),
    });
  }
}

/** `Tag.1.Key=a` for `{ Tag: [{ Key: "a" }] }`; what is undefined is left out. */
export function* pairsOf(
  value: QueryValue,
  name: string = "",
): Generator<[string, string]> {
  if (value === undefined) return;
  if (typeof value !== "object") {
    yield [name, String(value)];
    return;
  }
  const inner = Array.isArray(value)
    ? value.map((item, i): [string, QueryValue] => [`${i + 1}`, item])
    : Object.entries(value);
  for (const [key, item] of inner) {
    yield* pairsOf(item, name === "" ? key : `${name}.${key}`);
  }
}

function tryParseXml(text: string): XmlElement | SyntaxError {
  try {
    return parseXml(text);
  } catch (error) {
    if (error instanceof SyntaxError) return error;
    throw error;
  }
}
