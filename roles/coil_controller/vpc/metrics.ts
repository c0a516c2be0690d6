import {
  type Counter,
  type Gauge,
  MetricFactory,
  type Registry,
} from "../../../lib/telemetry/mod.ts";

/** Metrics of the ENIs of deleted nodes. */
export class SweepMetrics {
  /** As of the last look. */
  readonly loose: Gauge<"cluster">;
  readonly deleted: Counter;
  readonly errors: Counter;

  constructor(registry: Registry) {
    const make = new MetricFactory(registry);
    this.loose = make.gauge("coil_controller_vpc_loose_enis", {
      help:
        "ENIs of the cluster that no instance has, as of the last look at EC2.",
      labels: ["cluster"],
    });
    this.deleted = make.counter("coil_controller_vpc_deleted_enis_total", {
      help: "ENIs deleted because no instance had them.",
    });
    this.errors = make.counter("coil_controller_vpc_sweep_errors_total", {
      help: "Failures to find or delete detached ENIs; each is retried.",
    });
  }
}
