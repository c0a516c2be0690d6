import type { Attempt } from "../../../lib/aws/mod.ts";
import type { Action, EniBlock } from "../../../lib/vpc/mod.ts";
import {
  type Counter,
  type Histogram,
  MetricFactory,
  type Registry,
} from "../../../lib/telemetry/mod.ts";

/** A call of EC2 takes some 200 ms; one that is made again, seconds. */
const BUCKETS_S = [0.05, 0.1, 0.2, 0.5, 1, 2, 5, 15];

const ACTIONS: readonly Action["kind"][] = [
  "assign",
  "attach",
  "create",
  "delete",
  "detach",
  "endWithInstance",
  "unassign",
];

export interface VpcFigures {
  /** ENIs that the instance has. */
  readonly eniCount: number;
  readonly blocks: readonly EniBlock[];
  /** Addresses by what they are: used, resting or free. */
  readonly addresses: Readonly<Record<"used" | "cooling" | "free", number>>;
  /** Pods that wait for an address. */
  readonly waiting: number;
}

export class VpcMetrics {
  readonly #requests: Counter<"call" | "result">;
  readonly #seconds: Histogram<"call">;
  readonly #actions: Counter<"action">;

  constructor(registry: Registry, figures: () => VpcFigures) {
    const make = new MetricFactory(registry);
    this.#requests = make.counter("coil_vpc_api_requests_total", {
      help: "Requests to EC2, by call and result: success, none, or EC2's code",
      labels: ["call", "result"],
    });
    this.#seconds = make.histogram("coil_vpc_api_seconds", {
      help: "Duration of one request to EC2",
      labels: ["call"],
      buckets: BUCKETS_S,
    });
    this.#actions = make.counter("coil_vpc_plan_actions_total", {
      help: "Calls to EC2 for the plan of the node's ENIs",
      labels: ["action"],
    });
    for (const action of ACTIONS) this.#actions.inc({ action }, 0);
    observe(make, figures);
  }

  /** Counts and times a request that has ended. */
  requested({ call, result, durationMs }: Attempt): void {
    this.#requests.inc({ call, result });
    this.#seconds.observe({ call }, durationMs / 1_000);
  }

  /** Counts a call that begins. */
  began({ kind: action }: Action): void {
    this.#actions.inc({ action });
  }
}

function observe(make: MetricFactory, figures: () => VpcFigures): void {
  make.gauge("coil_vpc_enis", {
    help: "Network interfaces of the instance that give pods addresses",
    read: () => figures().eniCount,
  });
  make.gauge("coil_vpc_blocks", {
    help:
      "Addresses and prefixes of the node's ENIs, by whether pods can get addresses of them",
    labels: ["usable"],
    collect: (gauge) => {
      const { blocks } = figures();
      const usable = blocks.filter((block) => block.usable).length;
      gauge.set({ usable: "true" }, usable);
      gauge.set({ usable: "false" }, blocks.length - usable);
    },
  });
  make.gauge("coil_vpc_addresses", {
    help: "Addresses of the node's ENIs for pods, by state",
    labels: ["state"],
    collect: (gauge) => {
      for (const [state, count] of Object.entries(figures().addresses)) {
        gauge.set({ state }, count);
      }
    },
  });
  make.gauge("coil_vpc_waiting", {
    help: "Pods that wait for an address of the VPC",
    read: () => figures().waiting,
  });
}
