import {
  type Counter,
  type Gauge,
  MetricFactory,
  type Registry,
} from "../../lib/telemetry/mod.ts";

/** coil-router's metrics; the first two are upstream's. */
export class RouterMetrics {
  /** Synchronisations of the routes. */
  readonly syncs: Counter<"node">;
  /** Routes to other nodes' blocks that are in the kernel. */
  readonly routes: Gauge<"node">;
  /** Routes that could be neither set nor removed as they should. */
  readonly failures: Gauge<"node">;
  /** Synchronisations that put back what another program had removed. */
  readonly repairs: Counter<"node">;
  readonly #node: string;

  constructor(registry: Registry, node: string) {
    this.#node = node;
    const make = new MetricFactory(registry);
    const labels = ["node"] as const;
    this.syncs = make.counter("coil_router_syncs_total", {
      help: "Synchronisations of the routes",
      labels,
    });
    this.routes = make.gauge("coil_router_routes_synced", {
      help: "Routes to blocks of other nodes in the kernel",
      labels,
    });
    this.failures = make.gauge("coil_router_routes_failed", {
      help:
        "Routes to blocks of other nodes that the kernel refuses to set or remove",
      labels,
    });
    this.repairs = make.counter("coil_router_repairs_total", {
      help:
        "Synchronisations that restored routes which other programs removed or changed",
      labels,
    });
    this.repairs.inc({ node }, 0);
    this.syncs.inc({ node }, 0);
    this.routes.set({ node }, 0);
    this.failures.set({ node }, 0);
  }

  /** Records a synchronisation. */
  synced(counts: { readonly routes: number; readonly failures: number }): void {
    const node = this.#node;
    this.syncs.inc({ node });
    this.routes.set({ node }, counts.routes);
    this.failures.set({ node }, counts.failures);
  }

  /** Counts that another program had removed routes. */
  repaired(): void {
    this.repairs.inc({ node: this.#node });
  }
}
