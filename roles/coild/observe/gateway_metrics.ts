import type { AnnounceResult } from "../../../lib/announce/mod.ts";
import {
  type Counter,
  type Histogram,
  MetricFactory,
  type Registry,
  SECONDS_BUCKETS,
} from "../../../lib/telemetry/mod.ts";

/** The time to the next round and ten probes take 0.75 s at most, unless more probes are needed. */
const SILENCE_BUCKETS_S = [0.25, 0.5, 0.75, 1, 1.5, 2, 3, 5, 10, 30];

/** What a node thinks of gateways, as metric labels. */
const STATES = [
  ...["unknown", "healthy", "suspect", "doubted", "lost", "held", "draining"],
];

/** Metrics of the gateways that clients of this node choose from. */
export class GatewayMetrics {
  readonly #silence: Histogram;
  readonly #switch: Histogram;
  readonly #ended: Counter<"how">;
  readonly #reports: Counter<"result">;

  /** The gauge reads `states` when it is scraped: of each gateway what the node thinks of it. */
  constructor(registry: Registry, states: () => Iterable<string>) {
    const make = new MetricFactory(registry);
    this.#silence = make.histogram("coil_coild_egress_gateway_loss_seconds", {
      help:
        "Time from the last answered probe of a gateway until it counts as lost",
      buckets: SILENCE_BUCKETS_S,
    });
    this.#switch = make.histogram("coil_coild_egress_client_switch_seconds", {
      help:
        "Time from the loss of a gateway until a client no longer uses it and coild has tried once to end its connections through it",
      buckets: SECONDS_BUCKETS,
    });
    this.#ended = make.counter("coil_coild_egress_connections_ended_total", {
      help: "Connections of clients through lost gateways, by action",
      labels: ["how"],
    });
    for (const how of ["aborted", "forgotten"]) this.#ended.inc({ how }, 0);
    this.#reports = make.counter("coil_coild_egress_loss_reports_total", {
      help: "Reports of lost gateways to other gateways, by result",
      labels: ["result"],
    });
    make.gauge("coil_coild_egress_gateways", {
      help: "Gateways that this node probes, by state",
      labels: ["state"],
      collect: (gauge) => {
        for (const state of STATES) gauge.set({ state }, 0);
        for (const state of states()) gauge.inc({ state });
      },
    });
  }

  /** Counts a gateway as lost. */
  lost(silentMs: number): void {
    this.#silence.observe(silentMs / 1_000);
  }

  /** Counts a client that no longer uses a lost gateway. */
  switched(sinceLossMs: number): void {
    this.#switch.observe(sinceLossMs / 1_000);
  }

  /** Counts a report of lost gateways. */
  reported(result: AnnounceResult): void {
    this.#reports.inc({ result });
  }

  /** Counts connections that were ended. */
  ended(
    { aborted, forgotten }: {
      readonly aborted: number | undefined;
      readonly forgotten: number;
    },
  ): void {
    this.#ended.inc({ how: "aborted" }, aborted ?? 0);
    this.#ended.inc({ how: "forgotten" }, forgotten);
  }
}

/** The state of each gateway: what probes say, unless it is suspect, or is healthy and takes no new connections. */
export function gatewayStates(
  { health, suspects }: {
    readonly health: ReadonlyMap<string, string>;
    readonly suspects: ReadonlySet<string>;
  },
  ready: ReadonlySet<string>,
): string[] {
  return [...health].map(([gateway, state]) => {
    if (state === "healthy" && !ready.has(gateway)) return "draining";
    return suspects.has(gateway) ? "suspect" : state;
  });
}

/** The gateways that answer: those that take new connections, then those that are held off, have missed a probe or drain. */
export function answering(
  health: ReadonlyMap<string, string>,
  ready: ReadonlySet<string>,
): readonly ReadonlySet<string>[] {
  const all = [...health].filter(([, kind]) =>
    kind === "healthy" || kind === "held" || kind === "doubted"
  );
  const { best = [], others = [] } = Object.groupBy(
    all,
    ([name, kind]) => kind === "healthy" && ready.has(name) ? "best" : "others",
  );
  return [best, others].map((each) => new Set(each.map(([name]) => name)));
}
