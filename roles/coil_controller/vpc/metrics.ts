import {
  type Counter,
  type Gauge,
  MetricFactory,
  type Registry,
} from "../../../lib/telemetry/mod.ts";

/** Metrics of the ENIs of deleted nodes. */
export class SweepMetrics {
  readonly #loose: Gauge<"cluster">;
  readonly #deleted: Counter;
  readonly #errors: Counter;

  constructor(registry: Registry) {
    const make = new MetricFactory(registry);
    this.#loose = make.gauge("coil_controller_vpc_loose_enis", {
      help:
        "ENIs of the cluster that no instance has, as of the last look at EC2.",
      labels: ["cluster"],
    });
    this.#deleted = make.counter("coil_controller_vpc_deleted_enis_total", {
      help: "ENIs deleted because no instance had them.",
    });
    this.#errors = make.counter("coil_controller_vpc_sweep_errors_total", {
      help: "Failures to find or delete detached ENIs; each is retried.",
    });
  }

  /** Takes how many there were at a look. */
  looked(cluster: string, loose: number): void {
    this.#loose.set({ cluster }, loose);
  }

  deleted(): void {
    this.#deleted.inc();
  }

  failed(): void {
    this.#errors.inc();
  }

  /** Another process leads now, and looks. */
  ended(): void {
    this.#loose.reset();
  }
}
