/**
 * What every daemon shows of itself: logs, metrics, health endpoints, and how it starts and stops.
 *
 * @module
 */
export { acceptAll, type AcceptOptions, type Acceptor } from "./accept.ts";
export { type DaemonOptions, runDaemon } from "./daemon.ts";
export { type Checks, type HealthOptions, serveHealth } from "./health.ts";
export {
  bearerTokenOf,
  type HttpHandler,
  type HttpLimits,
} from "./http/mod.ts";
export {
  type ListenAddress,
  ListenError,
  type Listening,
  parseListenAddress,
  serveAt,
  type ServeAtOptions,
} from "./listen.ts";
export {
  configureLogging,
  getLogger,
  type LogFields,
  type Logger,
  type LoggingOptions,
  withLogContext,
} from "./log.ts";
export {
  describeError,
  type LogLevel,
  type TimeEncoding,
} from "./log_format.ts";
export {
  createRegistry,
  type MetricsOptions,
  type Refusal,
  SECONDS_BUCKETS,
  serveMetrics,
} from "./metrics.ts";
export { RepeatFilter, type RepeatFilterOptions } from "./repeat_filter.ts";
export { Counter, Gauge, Histogram, Registry } from "prom-client";
