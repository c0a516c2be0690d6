import {
  Counter,
  Gauge,
  Histogram,
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
    const registers = [registry];
    this.requests = new Counter({
      name: "rest_client_requests_total",
      help: "Requests to the API server.",
      labelNames: ["code", "host", "method"],
      registers,
    });
    const controller = ["controller"] as const;
    this.reconciles = new Counter({
      name: "controller_runtime_reconcile_total",
      help: "Finished reconciliations.",
      labelNames: ["controller", "result"],
      registers,
    });
    this.reconcileErrors = new Counter({
      name: "controller_runtime_reconcile_errors_total",
      help: "Failed reconciliations.",
      labelNames: controller,
      registers,
    });
    this.terminalErrors = new Counter({
      name: "controller_runtime_terminal_reconcile_errors_total",
      help: "Failed reconciliations that are not retried.",
      labelNames: controller,
      registers,
    });
    this.reconcileSeconds = new Histogram({
      name: "controller_runtime_reconcile_time_seconds",
      help: "Duration of reconciliations.",
      labelNames: controller,
      buckets: [...SECONDS_BUCKETS, 30, 60],
      registers,
    });
    this.activeWorkers = new Gauge({
      name: "controller_runtime_active_workers",
      help: "Running reconciliations.",
      labelNames: controller,
      registers,
    });
    this.maxConcurrent = new Gauge({
      name: "controller_runtime_max_concurrent_reconciles",
      help: "Maximum number of parallel reconciliations.",
      labelNames: controller,
      registers,
    });
    this.#queues = new QueueMetrics(registry);
    this.leader = new Gauge({
      name: "leader_election_master_status",
      help: "1 if this process is the leader, otherwise 0.",
      labelNames: ["name"],
      registers,
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
