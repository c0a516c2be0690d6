import {
  type Counter,
  getLogger,
  type Histogram,
  MetricFactory,
  type Registry,
  SECONDS_BUCKETS,
} from "../../../lib/telemetry/mod.ts";
import type { PluginCall } from "../../../lib/plugin/mod.ts";

const log = getLogger("coordinator");

/** The parts of a call that are timed by themselves. */
export type Phase = "lock" | "annotations" | "network";

/** What is asked of, or announced to, the network. */
export type ProbeKind = "conflict" | "gateway" | "announce";

/** `failed`: another machine has the address, or the gateway does not answer. `error`: the network could not be asked. */
export type ProbeResult = "ok" | "failed" | "error";

const PROBES: Readonly<Record<ProbeKind, readonly ProbeResult[]>> = {
  conflict: ["ok", "failed", "error"],
  gateway: ["ok", "failed", "error"],
  announce: ["ok", "error"],
};

/** Where the figures of the moment come from. */
export interface CoordinatorFigures {
  /** Of the defaults; undefined before the API server has answered. */
  readonly ageSeconds: number | undefined;
  /** Pods that are joined to this node. */
  countPods(): Promise<number>;
}

const COMMANDS = ["ADD", "DEL", "CHECK", "GC", "STATUS"] as const;
const BUCKETS_S = [0.001, 0.002, ...SECONDS_BUCKETS, 30];

/** Metrics of calls of the plugin `coordinator`. */
export class CoordinatorMetrics {
  readonly #calls: Counter<"command" | "result">;
  readonly #seconds: Histogram<"phase">;
  readonly #probes: Counter<"kind" | "result">;
  readonly #probeSeconds: Histogram<"kind">;

  constructor(registry: Registry, figures: CoordinatorFigures) {
    const make = new MetricFactory(registry);
    this.#calls = make.counter("coil_coordinator_calls_total", {
      help: "Calls of the CNI plugin coordinator that coild served",
      labels: ["command", "result"],
    });
    this.#seconds = make.histogram("coil_coordinator_call_seconds", {
      help: "Duration of each phase of a call of coordinator",
      labels: ["phase"],
      buckets: BUCKETS_S,
    });
    this.#probes = make.counter("coil_coordinator_probes_total", {
      help: "Probes for addresses in use and for gateways, and announcements",
      labels: ["kind", "result"],
    });
    this.#probeSeconds = make.histogram("coil_coordinator_probe_seconds", {
      help: "Duration of a probe or announcement of one address",
      labels: ["kind"],
      buckets: BUCKETS_S,
    });
    make.gauge("coil_coordinator_pods", {
      help: "Pods of this node that the coordinator has joined to it",
      collect: async (gauge) => {
        try {
          gauge.set(await figures.countPods());
        } catch (err) {
          // Other metrics are read all the same; this one keeps its value.
          log.warn("Cannot count joined pods", { err });
        }
      },
    });
    make.gauge("coil_coordinator_defaults_age_seconds", {
      help:
        "Time since the API server last confirmed the SpiderCoordinator; absent before the first answer",
      read: () => figures.ageSeconds,
    });
    for (const command of COMMANDS) {
      for (const result of ["ok", "error"]) {
        this.#calls.inc({ command, result }, 0);
      }
    }
    for (const [kind, results] of Object.entries(PROBES)) {
      for (const result of results) this.#probes.inc({ kind, result }, 0);
    }
  }

  /** Counts and times a probe that has ended. */
  probed(kind: ProbeKind, result: ProbeResult, elapsedMs: number): void {
    this.#probes.inc({ kind, result });
    this.#probeSeconds.observe({ kind }, elapsedMs / 1_000);
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
