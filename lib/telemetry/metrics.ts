import { Registry } from "prom-client";
import { type Listening, serveAt } from "./listen.ts";
import { registerProcessMetrics } from "./process_metrics.ts";
import { Rendering } from "./rendering.ts";

/** Buckets of histograms of times, from 5 ms to 10 s; callers that measure shorter or longer ones add some. */
export const SECONDS_BUCKETS: readonly number[] = [
  0.005,
  0.01,
  0.025,
  0.05,
  0.1,
  0.25,
  0.5,
  1,
  2.5,
  5,
  10,
];

/** Shorter texts are not worth it. */
const MIN_GZIP_BYTES = 1_024;

/** Makes a registry; with `defaults`, one that holds the process's own metrics (see docs of each role). */
export function createRegistry(
  options: { readonly defaults?: boolean } = {},
): Registry {
  const registry = new Registry();
  if (options.defaults ?? true) registerProcessMetrics(registry);
  return registry;
}

/** Says of a request, and the address that it came from, why it is refused: undefined when it is not. */
export type Refusal = (
  request: Request,
  peer: string,
) => Promise<Response | undefined>;

export interface MetricsOptions {
  /** Go-style address, e.g. ":9384"; "0" disables the server. */
  readonly address: string;
  /** What is served. */
  readonly registry: Registry;
  /** Returns the answer to a request that is not allowed; all are without it. */
  readonly refusal?: Refusal | undefined;
  /** Stops the server. */
  readonly signal: AbortSignal;
}

/** Serves GET /metrics in Prometheus' text format. */
export function serveMetrics(options: MetricsOptions): Listening {
  const { address, registry, signal } = options;
  const rendering = new Rendering(() => registry.metrics(), signal);
  return serveAt(address, async (request, peer) => {
    if (new URL(request.url).pathname !== "/metrics") {
      return new Response("404 page not found\n", { status: 404 });
    }
    const refusal = await options.refusal?.(request, peer);
    if (refusal !== undefined) return refusal;
    const { plain, gzip } = await rendering.get();
    const headers = new Headers({
      "content-type": registry.contentType,
      "vary": "Accept-Encoding",
    });
    if (plain.length < MIN_GZIP_BYTES || !acceptsGzip(request)) {
      return new Response(plain, { headers });
    }
    headers.set("content-encoding", "gzip");
    return new Response(await gzip(), { headers });
  }, { flag: "--metrics-addr", signal });
}

/** RFC 9110, section 12.5.3, as far as scrapers make use of it. */
function acceptsGzip(request: Request): boolean {
  const accepted = request.headers.get("accept-encoding") ?? "";
  return accepted.split(",").some((coding) =>
    /^\s*gzip\s*(;\s*q=(1|0?\.[0-9]*[1-9][0-9]*|1\.0*)\s*)?$/i.test(coding)
  );
}
