import { type Clock, systemClock } from "../../../lib/async/mod.ts";
import type {
  AllocationRecord,
  BlockRecord,
  NodeIpam,
} from "../../../lib/ipam/mod.ts";
import type { V1Pod } from "../../../lib/kube/mod.ts";
import { VPC_POOL } from "../../../lib/names/mod.ts";
import type { PodNetwork } from "../../../lib/podnet/mod.ts";
import type { RestTable } from "../../../lib/vpc/mod.ts";
import type { Registry } from "../../../lib/telemetry/mod.ts";
import type { RestStore, Supply } from "../blocks/supply.ts";
import { ExpectedPods } from "./expected_pods.ts";
import { type FleetOptions, VpcFleet } from "./fleet.ts";
import type { FleetView } from "./fleet_view.ts";
import type { Addresses } from "./uses.ts";
import { type HostPort, VpcHostKeeper } from "./host.ts";
import { type VpcFigures, VpcMetrics } from "./metrics.ts";
import type { VpcOptions } from "../cloud/options.ts";
import { KernelRests } from "./rests.ts";
import { VpcSource } from "./source.ts";

/** How long a block must have been empty before it goes back. */
const RETURN_DELAY_MS = 30_000;

export interface VpcSupplyOptions
  extends
    Pick<FleetOptions, "scheduling" | "env">,
    Partial<Pick<FleetOptions, "onAttempt" | "clock">> {
  readonly vpc: VpcOptions;
  readonly host: HostPort;
  readonly rests: Pick<RestTable, "begin" | "end" | "list">;
  readonly network: Pick<PodNetwork, "routedWithin">;
  readonly cooldownMs: number;
  /** The node's pods by the API server, as far as they are known. */
  readonly pods: () => readonly V1Pod[];
  /** How long a block must have been empty before it goes back. Default 30 s. */
  readonly returnDelayMs?: number;
  readonly registry: Registry;
}

/** The supply, and what people see of it. */
export interface VpcSupply extends Supply, Disposable {
  readonly rests: RestStore;
  /** What is known of the node's ENIs; undefined until it is known which instance this is. */
  readonly view: FleetView | undefined;
  /** The node's blocks; undefined before address management has started. */
  readonly records: readonly BlockRecord[] | undefined;
  /** The last refusal of EC2, until a call succeeds. */
  readonly lastRefusal: unknown;
  /** The node's pods with their addresses. */
  readonly allocations: readonly AllocationRecord[];
}

/** Blocks that EC2 grants to the node's ENIs. */
export function supplyOfVpc(options: VpcSupplyOptions): VpcSupply {
  const { vpc, network } = options;
  let ipam: NodeIpam | undefined;
  const waiting = () => ipam?.waiting(VPC_POOL) ?? 0;
  const rests = new KernelRests(options.rests, options);
  const clock = options.clock ?? systemClock;
  const comingTo = podsComing(options, clock);
  const addresses: Addresses = {
    blocks: () => ipam?.isReady ? ipam.blocks() : undefined,
    waiting: () => Math.max(waiting(), comingTo(ipam)),
    routedWithin: (prefixes) => network.routedWithin(prefixes),
    resting: async () => (await rests.list()).map(({ address }) => address),
  };
  const host = new VpcHostKeeper(options.host, vpc);
  const fleet = countedFleet({ ...options, host, addresses, clock }, () => ({
    addresses: countsOf(ipam),
    waiting: waiting(),
  }));
  const source = new VpcSource(fleet, addresses);
  return {
    get view() {
      return fleet.view;
    },
    get lastRefusal() {
      return fleet.lastRefusal;
    },
    get records() {
      return addresses.blocks();
    },
    get allocations() {
      return ipam?.list() ?? [];
    },
    pool: VPC_POOL,
    waitsFor:
      "coild waits for EC2 and the instance metadata service to list the node's addresses",
    exports: false,
    rests,
    ipam: {
      source,
      stock: source.stock,
      rest: "strict",
      returnDelayMs: 0,
      onLook: () => fleet.wakeSoon(),
    },
    synced: Promise.resolve(),
    loops: {
      "VPC fleet": (signal) => fleet.run(signal),
      ...host.loops(() => fleet.wake()),
      "rests of addresses": (signal) => rests.run(signal),
    },
    poolNames: () => [VPC_POOL],
    follow(followed) {
      ipam = followed;
      return fleet.subscribe(() => followed.onBlocksChanged(source.shown()));
    },
    [Symbol.dispose]: () => fleet[Symbol.dispose](),
  };
}

/** The ENIs, and the metrics of them and of their addresses. */
function countedFleet(
  { vpc, registry, returnDelayMs = RETURN_DELAY_MS, ...options }:
    & Omit<VpcSupplyOptions, "host">
    & Pick<FleetOptions, "host" | "addresses" | "clock">,
  counts: () => Pick<VpcFigures, "addresses" | "waiting">,
): VpcFleet {
  const metrics = new VpcMetrics(registry, () => ({
    ...counts(),
    eniCount: fleet.eniCount,
    blocks: fleet.blocks,
  }));
  const fleet = new VpcFleet({
    ...options,
    options: vpc,
    returnDelayMs,
    onAttempt(attempt) {
      metrics.requested(attempt);
      options.onAttempt?.(attempt);
    },
    onAction: (action) => metrics.began(action),
  });
  return fleet;
}

/** Returns how many pods are going to ask for an address, so that EC2 is asked once for all of them. */
function podsComing(
  { pods, scheduling }: Pick<VpcSupplyOptions, "pods" | "scheduling">,
  clock: Clock,
): (ipam: NodeIpam | undefined) => number {
  const expected = new ExpectedPods();
  return (ipam) => {
    if (!ipam?.isReady) return 0;
    const count = expected.count(pods(), {
      isHeld: (address) => !ipam.isFree(address),
      nowMs: clock.nowMs(),
    });
    const most = scheduling()?.maxPods ?? Infinity;
    return Math.min(count, most) - ipam.list().length;
  };
}

function countsOf(ipam: NodeIpam | undefined) {
  const counts = { used: 0, cooling: 0, free: 0 };
  for (const { held, cooling, free } of ipam?.blocks() ?? []) {
    counts.used += held;
    counts.cooling += cooling;
    counts.free += free;
  }
  return counts;
}
