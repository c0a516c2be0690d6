import {
  Counter,
  Gauge,
  Histogram,
  type Registry,
  SECONDS_BUCKETS,
} from "../../../lib/telemetry/mod.ts";
import type { PluginCall } from "../../../lib/plugin/mod.ts";

/** The parts of a call that are timed by themselves. */
export type Phase = "lock" | "annotations" | "network";

const COMMANDS = ["ADD", "DEL", "CHECK", "GC", "STATUS"] as const;
const BUCKETS_S = [0.001, 0.002, ...SECONDS_BUCKETS, 30];

/** Metrics of calls of the plugin `coordinator`. */
export class CoordinatorMetrics {
  readonly #calls: Counter<"command" | "result">;
  readonly #seconds: Histogram<"phase">;

  constructor(
    registry: Registry,
    defaults: { readonly ageSeconds: number | undefined },
  ) {
    const registers = [registry];
    this.#calls = new Counter({
      name: "coil_coordinator_calls_total",
      help: "Calls of the CNI plugin coordinator that coild served",
      labelNames: ["command", "result"],
      registers,
    });
    this.#seconds = new Histogram({
      name: "coil_coordinator_call_seconds",
      help: "Duration of each phase of a call of coordinator",
      labelNames: ["phase"],
      buckets: BUCKETS_S,
      registers,
    });
    new Gauge({
      name: "coil_coordinator_defaults_age_seconds",
      help:
        "Time since the API server last confirmed the SpiderCoordinator; absent before the first answer",
      registers,
      collect() {
        this.reset();
        const { ageSeconds } = defaults;
        if (ageSeconds === undefined) this.remove();
        else this.set(ageSeconds);
      },
    });
    for (const command of COMMANDS) {
      for (const result of ["ok", "error"]) {
        this.#calls.inc({ command, result }, 0);
      }
    }
  }

  /** Times a part of a call, also when it fails. */
  async phase<T>(phase: Phase, fn: () => Promise<T>): Promise<T> {
    const startedMs = performance.now();
    try {
      return await fn();
    } finally {
      this.#seconds.observe({ phase }, (performance.now() - startedMs) / 1_000);
    }
  }

  /** Counts a call that has ended. */
  called(command: PluginCall["command"], result: "ok" | "error"): void {
    this.#calls.inc({ command, result });
  }
}
