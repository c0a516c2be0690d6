/**
 * What every daemon shows of itself: logs, metrics, health endpoints, and how it starts and stops.
 *
 * @module
 */
export { acceptAll } from "./base/accept.ts";
export { runDaemon } from "./daemon.ts";
export { type Checks, serveHealth } from "./health.ts";
export { serveMonitoring } from "./monitoring.ts";
export { bearerTokenOf, DEFAULT_LIMITS, HttpServer } from "./http/mod.ts";
export {
  ListenError,
  type Listening,
  parseListenAddress,
  serveAt,
} from "./listen.ts";
export {
  configureLogging,
  getLogger,
  type Logger,
  type LoggingOptions,
  withLogContext,
} from "./base/log.ts";
export { describeError } from "./base/log_format.ts";
export {
  createRegistry,
  type Refusal,
  SECONDS_BUCKETS,
  serveMetrics,
} from "./metrics.ts";
export { MetricFactory } from "./metric_factory.ts";
export { RepeatFilter } from "./base/repeat_filter.ts";
export { Counter, Gauge, Histogram, Registry } from "prom-client";
