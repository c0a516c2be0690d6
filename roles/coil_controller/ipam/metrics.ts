import {
  type AddressPoolStatus,
  CONDITION_CLUSTER_ADDRESSES,
  CONDITION_OVERLAPPING,
  CONDITION_USED_UP_SOON,
  conditionOf,
  type PoolForecast,
  REASON_IN_POD_CIDR,
} from "../../../lib/api/mod.ts";
import { FAMILIES } from "../../../lib/inet/mod.ts";
import type { PoolCounts } from "../../../lib/ipam/mod.ts";
import {
  type Counter,
  type Gauge,
  type Histogram,
  MetricFactory,
  type Registry,
  SECONDS_BUCKETS,
} from "../../../lib/telemetry/mod.ts";

/** What the gauges of a pool say, besides the numbers of its blocks. */
interface CountedPool {
  readonly status?: AddressPoolStatus;
  /** The last status with numbers: one of a specification that cannot be read has none. */
  readonly numbers?: AddressPoolStatus | undefined;
  readonly forecast?: PoolForecast | undefined;
}

/** Metrics of address management. Names are upstream's where it has them. */
export class IpamMetrics {
  readonly findings: Gauge<"code">;
  readonly requests: Counter<"pool" | "result">;
  readonly requestSeconds: Histogram;
  readonly gcReleased: Counter;
  readonly gcErrors: Counter;

  readonly #seenMs = new Map<string, number>();
  readonly #pools = new Map<string, CountedPool>();
  #countBlocks: () => readonly PoolCounts[] = () => [];

  constructor(registry: Registry) {
    const make = new MetricFactory(registry);
    this.#observePools(make);
    this.findings = make.gauge("coil_controller_audit_findings", {
      help:
        "Inconsistencies of pods' addresses and blocks, as coil ipam check finds them, by code; absent while they are not known.",
      labels: ["code"],
    });
    this.requests = make.counter("coil_controller_block_requests_total", {
      help: "Answered block requests, by pool and result.",
      labels: ["pool", "result"],
    });
    this.requestSeconds = make.histogram(
      "coil_controller_block_request_seconds",
      {
        help: "Time from seeing a block request to writing its answer.",
        buckets: SECONDS_BUCKETS,
      },
    );
    this.gcReleased = make.counter("coil_controller_gc_released_blocks_total", {
      help: "Blocks released because their node was deleted.",
    });
    this.gcErrors = make.counter("coil_controller_gc_errors_total", {
      help: "Failed attempts to find or release blocks of deleted nodes.",
    });
  }

  /** A request, by its UID, waits for its answer. */
  requestSeen(uid: string): void {
    if (!this.#seenMs.has(uid)) this.#seenMs.set(uid, performance.now());
  }

  /** Its answer was written, or seen. */
  requestAnswered(uid: string): void {
    const seenMs = this.#seenMs.get(uid);
    if (seenMs === undefined) return;
    this.requestSeconds.observe((performance.now() - seenMs) / 1000);
    this.#seenMs.delete(uid);
  }

  /** It is gone without an answer. */
  requestGone(uid: string): void {
    this.#seenMs.delete(uid);
  }

  /** Counts the blocks of pools while this process leads; when that is disposed of, all pools are forgotten. */
  lead(countBlocks: () => readonly PoolCounts[]): Disposable {
    this.#countBlocks = countBlocks;
    return {
      [Symbol.dispose]: () => {
        this.#countBlocks = () => [];
        this.#pools.clear();
        this.findings.reset();
      },
    };
  }

  /** Takes over what a pool's status says. */
  poolCounted(pool: string, status: AddressPoolStatus): void {
    const known = this.#pools.get(pool);
    const numbers = status.blocks === undefined ? known?.numbers : status;
    this.#pools.set(pool, { ...known, status, numbers });
    // Prometheus sees no increase in a counter that begins with its first failure.
    this.requests.inc({ pool, result: "failed" }, 0);
  }

  /** Takes over how fast a pool is used up. */
  poolForecast(pool: string, forecast: PoolForecast | undefined): void {
    this.#pools.set(pool, { ...this.#pools.get(pool), forecast });
  }

  /** Forgets a pool. */
  dropPool(pool: string): void {
    this.#pools.delete(pool);
  }

  /** Registers the gauges of pools, which read what is known when scraped. */
  #observePools(make: MetricFactory): void {
    const ofBlocks = (read: (counts: PoolCounts) => number) => () =>
      this.#countBlocks().map((each) => [each.pool, read(each)] as const);
    const ofPools = (read: (pool: CountedPool) => number | undefined) => () =>
      [...this.#pools].map(([name, pool]) => [name, read(pool)] as const);
    gaugeOfPools(make, "coil_controller_max_blocks", {
      help: "The maximum number of allocatable address blocks.",
      read: ofBlocks(({ maxBlocks }) => maxBlocks),
    });
    gaugeOfPools(make, "coil_controller_allocated_blocks", {
      help: "The number of currently allocated address blocks.",
      read: ofBlocks(({ allocatedBlocks }) => allocatedBlocks),
    });
    gaugeOfPools(make, "coil_controller_free_blocks", {
      help:
        "The number of address blocks that can still be allocated, without those whose addresses are used elsewhere.",
      read: ofPools(({ status }) => status && (status.blocks?.free ?? 0)),
    });
    gaugeOfPools(make, "coil_controller_pool_overlaps", {
      help: "1 if other pools, nodes or Services have addresses of the pool.",
      read: ofPools(({ status }) => status && Number(isShared(status))),
    });
    gaugeOfPools(make, "coil_controller_pool_blocks_per_hour", {
      help:
        "By how many blocks an hour the pool's use grew in the last six hours: blocks in use, or blocks with pods, whichever grew less.",
      read: ofPools(({ forecast }) => forecast?.blocksPerHour),
    });
    gaugeOfPools(make, "coil_controller_pool_used_up_seconds", {
      help:
        "Time until no block of the pool is left at this rate; absent while its use does not grow.",
      read: ofPools(({ forecast: { hoursLeft } = {} }) =>
        hoursLeft === undefined ? undefined : hoursLeft * 3600
      ),
    });
    gaugeOfPools(make, "coil_controller_pool_used_up_soon", {
      help: "1 while the pool has the condition UsedUpSoon.",
      read: ofPools(({ status }) => status && Number(isUsedUpSoon(status))),
    });
    make.gauge("coil_controller_pool_addresses", {
      help:
        "Addresses of a pool by family and state: used by pods, idle in blocks of nodes, free to allocate, or unavailable because they are reserved or used elsewhere.",
      labels: ["pool", "family", "state"],
      collect: (gauge) => {
        gauge.reset();
        for (const [pool, { numbers = {} }] of this.#pools) {
          for (const [family, state, value] of addressCounts(numbers)) {
            gauge.set({ pool, family, state }, value);
          }
        }
      },
    });
  }
}

/** A gauge that a pool lacks while there is no value. */
function gaugeOfPools(
  make: MetricFactory,
  name: string,
  { help, read }: {
    readonly help: string;
    readonly read: () => readonly (readonly [string, number | undefined])[];
  },
): void {
  make.gauge(name, {
    help,
    labels: ["pool"],
    collect: (gauge) => {
      gauge.reset();
      for (const [pool, value] of read()) {
        if (value !== undefined) gauge.set({ pool }, value);
      }
    },
  });
}

function isShared({ conditions }: AddressPoolStatus): boolean {
  return [CONDITION_OVERLAPPING, CONDITION_CLUSTER_ADDRESSES]
    .map((type) => conditionOf(conditions, type)?.reason)
    .some((reason) => reason !== undefined && reason !== REASON_IN_POD_CIDR);
}

function isUsedUpSoon({ conditions }: AddressPoolStatus): boolean {
  return conditionOf(conditions, CONDITION_USED_UP_SOON) !== undefined;
}

/** The states of a family add up to its addresses; "used" and "idle" are there as soon as the pods are known. */
function addressCounts(status: AddressPoolStatus) {
  return FAMILIES.flatMap((family) => {
    const counts = status[family];
    if (counts === undefined) return [];
    const total = Number(counts.total);
    const allocated = Number(counts.allocated);
    const free = Number(counts.free);
    const used = Number(counts.used ?? 0);
    const states = {
      free,
      unavailable: Math.max(0, total - allocated - free),
      ...(counts.used !== undefined &&
        { used, idle: Math.max(0, allocated - used) }),
    };
    return Object.entries(states)
      .map(([state, value]) => [family, state, value] as const);
  });
}
