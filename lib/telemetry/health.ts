import { abortable, withTimeout } from "../async/mod.ts";
import { type Listening, serveAt } from "./listen.ts";
import { describeError } from "./base/log_format.ts";

/** Named checks: true is well, a text or an error says what is not. */
export type Checks = Readonly<
  Record<string, () => true | string | Promise<true | string>>
>;

export interface HealthOptions {
  /** Go-style address, e.g. ":9385"; "0" disables the server. */
  readonly address: string;
  /** Checks of /healthz; failing means the process should be restarted. */
  readonly healthz: Checks;
  /** Checks of /readyz; failing means it should get no work. */
  readonly readyz: Checks;
  /** How long a check may take before it counts as failed. Default 5 s. */
  readonly checkTimeoutMs?: number;
  /** Stops the server. */
  readonly signal: AbortSignal;
}

const CHECK_TIMEOUT_MS = 5000;

interface CheckResult {
  readonly name: string;
  readonly failure: string | undefined;
}

/**
 * Serves /healthz and /readyz: 200 "ok" when all their checks pass, else 500 with the ones that fail. Each check alone
 * is at /healthz/NAME; `?verbose` lists all, in the form of Kubernetes' own components.
 */
export function serveHealth(options: HealthOptions): Listening {
  const endpoints: Readonly<Record<string, Checks>> = {
    healthz: options.healthz,
    readyz: options.readyz,
  };
  return serveAt(
    options.address,
    (request) =>
      answer(request, endpoints, options.checkTimeoutMs ?? CHECK_TIMEOUT_MS),
    { flag: "--health-addr", signal: options.signal },
  );
}

async function answer(
  request: Request,
  endpoints: Readonly<Record<string, Checks>>,
  timeoutMs: number,
): Promise<Response> {
  const url = new URL(request.url);
  const [endpoint = "", name, ...rest] = url.pathname.slice(1).split("/");
  const checks = Object.hasOwn(endpoints, endpoint)
    ? endpoints[endpoint]
    : undefined;
  if (checks === undefined || rest.length > 0) return notFound();
  if (request.method !== "GET" && request.method !== "HEAD") {
    return new Response("method not allowed\n", { status: 405 });
  }
  const runOne = (one: string) => runCheck(one, checks[one], timeoutMs);
  if (name === undefined || name === "") {
    const results = await Promise.all(Object.keys(checks).map(runOne));
    return report(endpoint, results, url.searchParams.has("verbose"));
  }
  if (!Object.hasOwn(checks, name)) return notFound();
  return report(name, [await runOne(name)], false);
}

async function runCheck(
  name: string,
  check: Checks[string] | undefined,
  timeoutMs: number,
): Promise<CheckResult> {
  try {
    const outcome = await withTimeout(
      timeoutMs,
      (signal) => abortable(Promise.resolve(check?.()), signal),
    );
    return { name, failure: outcome === true ? undefined : String(outcome) };
  } catch (error) {
    return { name, failure: describeError(error) };
  }
}

function report(
  subject: string,
  results: readonly CheckResult[],
  verbose: boolean,
): Response {
  const failed = results.some((result) => result.failure !== undefined);
  if (!failed && !verbose) return new Response("ok");
  const lines = results.map(({ name, failure }) =>
    failure === undefined ? `[+]${name} ok` : `[-]${name} failed: ${failure}`
  );
  const summary = `${subject} check ${failed ? "failed" : "passed"}`;
  return new Response([...lines, summary, ""].join("\n"), {
    status: failed ? 500 : 200,
  });
}

function notFound(): Response {
  return new Response("404 page not found\n", { status: 404 });
}
