import type { Loops } from "../async/mod.ts";
import { type Checks, serveHealth } from "./health.ts";
import { type MetricsOptions, serveMetrics } from "./metrics.ts";

export interface MonitoringOptions
  extends Pick<MetricsOptions, "registry" | "refusal" | "signal"> {
  /** Go-style address, e.g. ":9384"; "0" serves no metrics. */
  readonly metricsAddress: string;
  /** Go-style address, e.g. ":9385"; "0" serves no health checks. */
  readonly healthAddress: string;
  /** Checks of /healthz, beside the one that the process answers. */
  readonly healthz?: Checks;
  /** Checks of /readyz. */
  readonly readyz: Checks;
}

/** Servers of metrics and health checks. */
export interface Monitoring {
  readonly metricsPort: number;
  readonly healthPort: number;
  /** They end with the servers. */
  readonly loops: Loops;
}

/** Serves metrics and health checks from now on. The loops end with the servers. */
export function serveMonitoring(options: MonitoringOptions): Loops {
  return startMonitoring(options).loops;
}

/** As {@linkcode serveMonitoring}, for callers that let the kernel choose the ports. */
export function startMonitoring(options: MonitoringOptions): Monitoring {
  const { metricsAddress, healthAddress, registry, refusal, signal } = options;
  const address = metricsAddress;
  const metrics = serveMetrics({ address, registry, refusal, signal });
  const health = serveHealth({
    address: healthAddress,
    healthz: { ping: () => true, ...options.healthz },
    readyz: options.readyz,
    signal,
  });
  return {
    metricsPort: metrics.port,
    healthPort: health.port,
    loops: {
      "metrics server": () => metrics.finished,
      "health server": () => health.finished,
    },
  };
}
