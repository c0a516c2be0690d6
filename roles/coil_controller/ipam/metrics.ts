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
import {
  type Counter,
  type Gauge,
  type Histogram,
  MetricFactory,
  type Registry,
  SECONDS_BUCKETS,
} from "../../../lib/telemetry/mod.ts";

/** What an address of a pool can be. */
const ADDRESS_STATES = ["used", "idle", "free", "unavailable"] as const;

/** Metrics of address management. Names are upstream's where it has them. */
export class IpamMetrics {
  readonly maxBlocks: Gauge<"pool">;
  readonly allocatedBlocks: Gauge<"pool">;
  readonly freeBlocks: Gauge<"pool">;
  readonly overlaps: Gauge<"pool">;
  readonly addresses: Gauge<"pool" | "family" | "state">;
  readonly blocksPerHour: Gauge<"pool">;
  readonly usedUpSeconds: Gauge<"pool">;
  readonly usedUpSoon: Gauge<"pool">;
  readonly findings: Gauge<"code">;
  readonly requests: Counter<"pool" | "result">;
  readonly requestSeconds: Histogram;
  readonly gcReleased: Counter;
  readonly gcErrors: Counter;

  readonly #seenMs = new Map<string, number>();

  constructor(registry: Registry) {
    const make = new MetricFactory(registry);
    this.maxBlocks = make.gauge("coil_controller_max_blocks", {
      help: "The maximum number of allocatable address blocks.",
      labels: ["pool"],
    });
    this.allocatedBlocks = make.gauge("coil_controller_allocated_blocks", {
      help: "The number of currently allocated address blocks.",
      labels: ["pool"],
    });
    this.freeBlocks = make.gauge("coil_controller_free_blocks", {
      help:
        "The number of address blocks that can still be allocated, without those whose addresses are used elsewhere.",
      labels: ["pool"],
    });
    this.overlaps = make.gauge("coil_controller_pool_overlaps", {
      help: "1 if other pools, nodes or Services have addresses of the pool.",
      labels: ["pool"],
    });
    this.addresses = make.gauge("coil_controller_pool_addresses", {
      help:
        "Addresses of a pool by family and state: used by pods, idle in blocks of nodes, free to allocate, or unavailable because they are reserved or used elsewhere.",
      labels: ["pool", "family", "state"],
    });
    this.blocksPerHour = make.gauge("coil_controller_pool_blocks_per_hour", {
      help:
        "By how many blocks an hour the pool's use grew in the last six hours: blocks in use, or blocks with pods, whichever grew less.",
      labels: ["pool"],
    });
    this.usedUpSeconds = make.gauge("coil_controller_pool_used_up_seconds", {
      help:
        "Time until no block of the pool is left at this rate; absent while its use does not grow.",
      labels: ["pool"],
    });
    this.usedUpSoon = make.gauge("coil_controller_pool_used_up_soon", {
      help: "1 while the pool has the condition UsedUpSoon.",
      labels: ["pool"],
    });
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

  /** Takes over what a pool's status says. */
  poolCounted(pool: string, status: AddressPoolStatus): void {
    const { blocks, conditions } = status;
    this.#countAddresses(pool, status);
    this.freeBlocks.set({ pool }, blocks?.free ?? 0);
    // Prometheus sees no increase in a counter that begins with its first failure.
    this.requests.inc({ pool, result: "failed" }, 0);
    const isShared = [CONDITION_OVERLAPPING, CONDITION_CLUSTER_ADDRESSES]
      .map((type) => conditionOf(conditions, type)?.reason)
      .some((reason) => reason !== undefined && reason !== REASON_IN_POD_CIDR);
    this.overlaps.set({ pool }, isShared ? 1 : 0);
    const soon = conditionOf(conditions, CONDITION_USED_UP_SOON);
    this.usedUpSoon.set({ pool }, soon === undefined ? 0 : 1);
  }

  /** Takes over how fast a pool is used up. */
  poolForecast(pool: string, forecast: PoolForecast | undefined): void {
    const { blocksPerHour, hoursLeft } = forecast ?? {};
    setOrRemove(this.blocksPerHour, pool, blocksPerHour);
    setOrRemove(
      this.usedUpSeconds,
      pool,
      hoursLeft === undefined ? undefined : hoursLeft * 3600,
    );
  }

  /** The states of a family add up to its addresses; "used" and "idle" are there as soon as the pods are known. */
  #countAddresses(pool: string, status: AddressPoolStatus): void {
    for (const family of FAMILIES) {
      const counts = status[family];
      if (counts === undefined) continue;
      const [total, allocated, free, used] = [
        counts.total,
        counts.allocated,
        counts.free,
        counts.used ?? 0,
      ].map(Number) as [number, number, number, number];
      const states = {
        free,
        unavailable: Math.max(0, total - allocated - free),
        ...(counts.used !== undefined &&
          { used, idle: Math.max(0, allocated - used) }),
      };
      for (const [state, value] of Object.entries(states)) {
        this.addresses.set({ pool, family, state }, value);
      }
    }
  }

  /** Forgets a pool. */
  dropPool(pool: string): void {
    for (const gauge of this.#ofPools) gauge.remove(pool);
    for (const family of FAMILIES) {
      for (const state of ADDRESS_STATES) {
        this.addresses.remove({ pool, family, state });
      }
    }
  }

  /** Forgets all pools: another replica counts them now. */
  dropPools(): void {
    for (const gauge of this.#ofPools) gauge.reset();
    this.addresses.reset();
    this.findings.reset();
  }

  get #ofPools(): readonly Gauge<"pool">[] {
    return [
      this.maxBlocks,
      this.allocatedBlocks,
      this.freeBlocks,
      this.overlaps,
      this.blocksPerHour,
      this.usedUpSeconds,
      this.usedUpSoon,
    ];
  }
}

function setOrRemove(
  gauge: Gauge<"pool">,
  pool: string,
  value: number | undefined,
): void {
  if (value === undefined) gauge.remove(pool);
  else gauge.set({ pool }, value);
}
