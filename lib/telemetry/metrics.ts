import { Registry } from "prom-client";
import { type Listening, serveAt } from "./listen.ts";
import { registerProcessMetrics } from "./process_metrics.ts";

/** Makes a registry; with `defaults`, one that holds the process's own metrics (see docs of each role). */
export function createRegistry(
  options: { readonly defaults?: boolean } = {},
): Registry {
  const registry = new Registry();
  if (options.defaults ?? true) registerProcessMetrics(registry);
  return registry;
}

/** Options of {@linkcode serveMetrics}. */
export interface MetricsOptions {
  /** Go-style address, e.g. ":9384"; "0" disables the server. */
  readonly address: string;
  /** What is served. */
  readonly registry: Registry;
  /** Stops the server. */
  readonly signal: AbortSignal;
}

/** Serves GET /metrics in Prometheus' text format. */
export function serveMetrics(options: MetricsOptions): Listening {
  const { registry } = options;
  return serveAt(options.address, async (request) => {
    if (new URL(request.url).pathname !== "/metrics") {
      return new Response("404 page not found\n", { status: 404 });
    }
    return new Response(await registry.metrics(), {
      headers: { "content-type": registry.contentType },
    });
  }, options);
}
