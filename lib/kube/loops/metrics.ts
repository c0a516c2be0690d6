import {
  type Counter,
  type Gauge,
  type Histogram,
  MetricFactory,
  type Registry,
  SECONDS_BUCKETS,
} from "../../telemetry/mod.ts";
import { QueueMetrics, type QueueReading } from "./queue_metrics.ts";
import type { RequestInfo } from "../http/requester.ts";
import type { QueueObserver } from "./work_queue.ts";

/**
 * Metrics of clients, controllers and leader election, under the names that controller-runtime and client-go use, so
 * that dashboards made for them work.
 */
export class KubeMetrics {
  /** Requests by status code. */
  readonly requests: Counter<"code" | "host" | "method">;
  /** Reconciliations by result. */
  readonly reconciles: Counter<"controller" | "result">;
  /** Failed reconciliations. */
  readonly reconcileErrors: Counter<"controller">;
  /** Failed ones that are not tried again. */
  readonly terminalErrors: Counter<"controller">;
  /** How long they took. */
  readonly reconcileSeconds: Histogram<"controller">;
  /** Under way. */
  readonly activeWorkers: Gauge<"controller">;
  /** At most at once. */
  readonly maxConcurrent: Gauge<"controller">;
  /** 1 while this process leads. */
  readonly leader: Gauge<"name">;
  readonly #queues: QueueMetrics;

  constructor(registry: Registry) {
    const make = new MetricFactory(registry);
    this.requests = make.counter("rest_client_requests_total", {
      help: "Requests to the API server.",
      labels: ["code", "host", "method"],
    });
    const controller = ["controller"] as const;
    this.reconciles = make.counter("controller_runtime_reconcile_total", {
      help: "Finished reconciliations.",
      labels: ["controller", "result"],
    });
    this.reconcileErrors = make.counter(
      "controller_runtime_reconcile_errors_total",
      {
        help: "Failed reconciliations.",
        labels: controller,
      },
    );
    this.terminalErrors = make.counter(
      "controller_runtime_terminal_reconcile_errors_total",
      {
        help: "Failed reconciliations that are not retried.",
        labels: controller,
      },
    );
    this.reconcileSeconds = make.histogram(
      "controller_runtime_reconcile_time_seconds",
      {
        help: "Duration of reconciliations.",
        labels: controller,
        buckets: [...SECONDS_BUCKETS, 30, 60],
      },
    );
    this.activeWorkers = make.gauge("controller_runtime_active_workers", {
      help: "Running reconciliations.",
      labels: controller,
    });
    this.maxConcurrent = make.gauge(
      "controller_runtime_max_concurrent_reconciles",
      {
        help: "Maximum number of parallel reconciliations.",
        labels: controller,
      },
    );
    this.#queues = new QueueMetrics(registry);
    this.leader = make.gauge("leader_election_master_status", {
      help: "1 if this process is the leader, otherwise 0.",
      labels: ["name"],
    });
  }

  /** To be given as `onRequest` to a client. */
  readonly onRequest = ({ code, host, method }: RequestInfo): void => {
    this.requests.inc({ code, host, method });
  };

  /** Makes a controller's metrics exist, and its queue's; returns the observer for the queue. */
  watchQueue(
    name: string,
    { concurrency, ...reading }: QueueReading & {
      readonly concurrency: number;
    },
  ): QueueObserver {
    const observer = this.#queues.watch(name, reading);
    const controller = name;
    this.maxConcurrent.set({ controller }, concurrency);
    this.activeWorkers.set({ controller }, 0);
    this.reconcileErrors.inc({ controller }, 0);
    for (const result of ["success", "error", "requeue_after"]) {
      this.reconciles.inc({ controller, result }, 0);
    }
    return observer;
  }

  /** Counts a key that a controller adds again after a failure. */
  retried(controller: string): void {
    this.#queues.retried(controller);
  }

  /** Counts one reconciliation. */
  reconciled(
    controller: string,
    { result, ms }: { result: string; ms: number },
  ): void {
    this.reconciles.inc({ controller, result });
    if (result === "error") this.reconcileErrors.inc({ controller });
    this.reconcileSeconds.observe({ controller }, ms / 1000);
  }
}
