import type { AnnounceResult } from "../../../lib/announce/mod.ts";
import type { IpamObserver, NodeIpam } from "../../../lib/ipam/mod.ts";
import { type CallsInFlight, enterPhase } from "./calls_in_flight.ts";
import {
  type Counter,
  type Histogram,
  MetricFactory,
  type Registry,
  SECONDS_BUCKETS,
} from "../../../lib/telemetry/mod.ts";

/**
 * The outcome of a call at the plugin's socket, from the executable's front or
 * from the whole program. Without an answer the front goes on as the whole
 * program, which asks again.
 */
export type PluginOutcome =
  | "answered"
  /** The network configuration names another coild's socket. */
  | "other-socket"
  /** The request is malformed, or the answer does not fit the front's buffer. */
  | "unusable"
  /** Too many at a time, or coild ends. */
  | "busy";

/** The parts of an ADD that are timed by themselves. */
export type AddPhase = "lock" | "pod" | "address" | "network" | "egress";

/** The states of addresses, as metric labels. */
const ADDRESS_STATES = [
  "free",
  "used",
  "releasing",
  "cooling",
  "reserved",
  "quarantined",
] as const;

/** What coild puts back when another program removed it, as metric labels. */
export const REPAIRS = [
  "rule",
  "forwarding",
  "link",
  "address",
  "route",
  "export",
  "sources",
] as const;

/** One of them. */
export type Repair = typeof REPAIRS[number];

/** An ADD takes a few milliseconds; ten seconds is the limit of a block request. */
const BUCKETS_S = [0.0005, 0.001, 0.002, ...SECONDS_BUCKETS, 30];

/** That many phases are of some hundred ADDs. */
const MAX_TIMED = 1_000;

/** Sources of the address management's gauges, read at each scrape. */
export interface IpamSources {
  readonly ipam: Pick<NodeIpam, "stats">;
  readonly teardown: { readonly pending: number };
}

export interface EgressFigures {
  readonly clients: number;
  /** Clients that something is wrong with, by what it is. */
  readonly conditions: ReadonlyMap<string, number>;
}

export interface MetricSources {
  readonly readiness: { readonly isReady: boolean };
  readonly egress?: EgressFigures | undefined;
}

/** Metrics of coild beside those of gRPC and the process. */
export class CoildMetrics implements IpamObserver {
  readonly #phases: Histogram<"phase">;
  /** Observed when there are many or they are read: that takes as long as a phase without the kernel. */
  #timed: (readonly [phase: AddPhase, seconds: number])[] = [];
  readonly #audits: Counter<"result">;
  readonly #requests: Histogram<"pool" | "outcome">;
  readonly #returns: Counter<"pool" | "result">;
  readonly #exhausted: Counter<"pool">;
  readonly #pluginCalls: Counter<"result">;
  readonly #announcements: Counter<"result">;
  readonly #updates: Counter<"result">;
  readonly #repairs: Counter<"what">;

  constructor(
    registry: Registry,
    calls: Pick<CallsInFlight, "list"> = { list: [] },
  ) {
    const make = new MetricFactory(registry);
    const observeTimed = () => this.#observeTimed();
    this.#phases = make.histogram("coil_coild_add_phase_seconds", {
      help: "Duration of each phase of an ADD",
      labels: ["phase"],
      buckets: BUCKETS_S,
      collect: observeTimed,
    });
    make.gauge("coil_coild_adds_in_flight", {
      help: "Running ADD calls",
      read: () => calls.list.filter(({ method }) => method === "Add").length,
    });
    this.#audits = make.counter("coil_coild_reconciliations_total", {
      help: "Comparisons of kernel, addresses and blocks",
      labels: ["result"],
    });
    this.#requests = make.histogram("coil_coild_block_request_seconds", {
      help: "Time from a block request to its answer",
      labels: ["pool", "outcome"],
      buckets: BUCKETS_S,
    });
    this.#returns = make.counter("coil_coild_block_returns_total", {
      help: "Attempts to return an empty block",
      labels: ["pool", "result"],
    });
    this.#exhausted = make.counter("coil_coild_pool_exhausted_adds_total", {
      help: "ADDs that got no address because the pool has no free block",
      labels: ["pool"],
    });
    this.#pluginCalls = make.counter("coil_coild_launcher_calls_total", {
      help:
        "Calls at the plugin's socket, from the front or the whole program, by result",
      labels: ["result"],
    });
    this.#announcements = make.counter(
      "coil_coild_egress_announcements_total",
      {
        help: "Announcements of new clients to gateways, by result",
        labels: ["result"],
      },
    );
    this.#updates = make.counter("coil_coild_egress_updates_total", {
      help: "Checks of pods whose egress may have changed, by result",
      labels: ["result"],
    });
    this.#repairs = make.counter("coil_coild_repairs_total", {
      help:
        "Objects of the node's network that other programs removed and coild restored",
      labels: ["what"],
    });
    for (const what of REPAIRS) this.#repairs.inc({ what }, 0);
    for (const result of ["ok", "error"]) {
      this.#audits.inc({ result }, 0);
      this.#updates.inc({ result }, 0);
    }
  }

  /** Registers the gauges of the address management, which are read when scraped. */
  observeIpam(registry: Registry, { ipam, teardown }: IpamSources): void {
    const make = new MetricFactory(registry);
    make.gauge("coil_coild_addresses", {
      help: "Addresses of this node's blocks by state",
      labels: ["pool", "state"],
      collect: (gauge) => {
        gauge.reset();
        for (const stats of ipam.stats()) {
          for (const state of ADDRESS_STATES) {
            gauge.set({ pool: stats.pool, state }, stats[state]);
          }
        }
      },
    });
    make.gauge("coil_coild_blocks", {
      help: "Address blocks that this node holds",
      labels: ["pool"],
      collect: (gauge) => {
        gauge.reset();
        for (const { pool, blocks } of ipam.stats()) {
          gauge.set({ pool }, blocks);
        }
      },
    });
    make.gauge("coil_coild_husks", {
      help: "Disconnected pod interfaces pending deletion",
      read: () => teardown.pending,
    });
  }

  /** Registers the other gauges that are read when scraped. */
  observe(registry: Registry, { readiness, egress }: MetricSources): void {
    const make = new MetricFactory(registry);
    if (egress !== undefined) {
      make.gauge("coil_coild_egress_client_conditions", {
        help: "Clients of Egresses with a problem now",
        labels: ["reason"],
        collect: (gauge) => {
          for (const [reason, count] of egress.conditions) {
            gauge.set({ reason }, count);
          }
        },
      });
      make.gauge("coil_coild_egress_clients", {
        help: "Pods of this node that are clients of Egresses",
        read: () => egress.clients,
      });
    }
    make.gauge("coil_coild_ready", {
      help: "1 if coild serves ADD, otherwise 0",
      read: () => readiness.isReady ? 1 : 0,
    });
  }

  /** Times one part of an ADD, also when it fails. */
  async phase<T>(phase: AddPhase, fn: () => Promise<T>): Promise<T> {
    using _phase = enterPhase(phase);
    const start = performance.now();
    try {
      return await fn();
    } finally {
      this.#timed.push([phase, (performance.now() - start) / 1_000]);
      // mutate: only bounds memory.
      if (this.#timed.length >= MAX_TIMED) this.#observeTimed();
    }
  }

  #observeTimed(): void {
    for (const [phase, seconds] of this.#timed) {
      this.#phases.observe({ phase }, seconds);
    }
    this.#timed = [];
  }

  /** Counts the outcome of a plugin's call. */
  pluginCalled(result: PluginOutcome): void {
    this.#pluginCalls.inc({ result });
  }

  /** Times a request for a block. */
  blockRequested(
    { pool, outcome, seconds }: {
      readonly pool: string;
      readonly outcome: string;
      readonly seconds: number;
    },
  ): void {
    this.#requests.observe({ pool, outcome }, seconds);
  }

  /** Counts an attempt to give a block back. */
  blockReturned(
    { pool, ok }: { readonly pool: string; readonly ok: boolean },
  ): void {
    this.#returns.inc({ pool, result: ok ? "ok" : "error" });
  }

  /** Counts an ADD for which its pool has no address left. */
  poolExhausted(pool: string): void {
    this.#exhausted.inc({ pool });
  }

  /** Counts the result of an announcement to a gateway. */
  announced(result: AnnounceResult): void {
    this.#announcements.inc({ result });
  }

  /** Counts a look at a pod's egress. */
  egressUpdated(result: "ok" | "error"): void {
    this.#updates.inc({ result });
  }

  /** Counts something that was put back. */
  repaired(what: Repair): void {
    this.#repairs.inc({ what });
  }

  /** Counts a reconciliation. */
  reconciled(result: "ok" | "error"): void {
    this.#audits.inc({ result });
  }
}
