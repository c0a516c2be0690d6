import { CODE_NAMES } from "../../../lib/grpc/mod.ts";
import {
  type Counter,
  type Histogram,
  MetricFactory,
  type Registry,
  SECONDS_BUCKETS,
} from "../../../lib/telemetry/mod.ts";
import { METHOD_NAMES, type MethodName, SERVICE_NAME } from "./method_names.ts";

const METHOD_LABELS = ["grpc_type", "grpc_service", "grpc_method"] as const;

/** Seconds; a call may wait for others, so the scale is long. */
const BUCKETS = [0.001, 0.0025, ...SECONDS_BUCKETS, 30, 60];

/** Counts calls, whichever door they come by, under the names of go-grpc-prometheus. */
export class CallMetrics {
  readonly #started: Counter<typeof METHOD_LABELS[number]>;
  readonly #received: Counter<typeof METHOD_LABELS[number]>;
  readonly #sent: Counter<typeof METHOD_LABELS[number]>;
  readonly #handled: Counter<typeof METHOD_LABELS[number] | "grpc_code">;
  readonly #seconds: Histogram<typeof METHOD_LABELS[number]>;

  /** Every counter is there from the start, at 0. */
  constructor(registry: Registry) {
    const make = new MetricFactory(registry);
    this.#started = make.counter("grpc_server_started_total", {
      help: "Total number of RPCs started on the server.",
      labels: METHOD_LABELS,
    });
    this.#received = make.counter("grpc_server_msg_received_total", {
      help: "Total number of RPC messages received on the server.",
      labels: METHOD_LABELS,
    });
    this.#sent = make.counter("grpc_server_msg_sent_total", {
      help: "Total number of RPC messages sent by the server.",
      labels: METHOD_LABELS,
    });
    this.#handled = make.counter("grpc_server_handled_total", {
      help: "Total number of RPCs completed on the server, by status.",
      labels: [...METHOD_LABELS, "grpc_code"],
    });
    this.#seconds = make.histogram("grpc_server_handling_seconds", {
      help: "Time from the request to the answer, in seconds.",
      labels: METHOD_LABELS,
      buckets: BUCKETS,
    });
    for (const name of METHOD_NAMES) this.#initialize(labelsOf(name));
  }

  #initialize(labels: ReturnType<typeof labelsOf>): void {
    for (const counter of [this.#started, this.#received, this.#sent]) {
      counter.inc(labels, 0);
    }
    for (const grpc_code of CODE_NAMES) {
      this.#handled.inc({ ...labels, grpc_code }, 0);
    }
    this.#seconds.zero(labels);
  }

  /** A request has arrived. */
  start(method: MethodName): void {
    this.#started.inc(labelsOf(method));
    this.#received.inc(labelsOf(method));
  }

  /** A call has ended. */
  finish(
    method: MethodName,
    outcome: { readonly codeName: string; readonly seconds: number },
  ): void {
    const labels = labelsOf(method);
    this.#handled.inc({ ...labels, grpc_code: outcome.codeName });
    if (outcome.codeName === "OK") this.#sent.inc(labels);
    this.#seconds.observe(labels, outcome.seconds);
  }
}

function labelsOf(method: MethodName) {
  return {
    grpc_type: "unary",
    grpc_service: SERVICE_NAME,
    grpc_method: method,
  };
}
