/** coild as it is, with a simulated kernel and API server. */
import { create } from "@bufbuild/protobuf";
import { Registry } from "prom-client";
import {
  Gate,
  KeyedMutex,
  type Loops,
  TaskGroup,
} from "../../lib/async/mod.ts";
import { type CNIArgs, CNIArgsSchema } from "../../lib/cnirpc/mod.ts";
import { NodeIpam, type NodeIpamOptions } from "../../lib/ipam/mod.ts";
import {
  KubeClient,
  KubeUnreachableError,
  type Transport,
} from "../../lib/kube/mod.ts";
import type { PodNetwork } from "../../lib/podnet/mod.ts";
import { AddressedPods } from "../../roles/coild/pods/addressed_pods.ts";
import { supplyOfPools } from "../../roles/coild/blocks/pools.ts";
import { CniService } from "../../roles/coild/service/cni_service.ts";
import { type EgressCalls, NO_EGRESS } from "../../roles/coild/egress/calls.ts";
import { GarbageCollector } from "../../roles/coild/pods/garbage.ts";
import { CoildMetrics } from "../../roles/coild/observe/metrics.ts";
import { NetworkMemory } from "../../roles/coild/network/memory.ts";
import { NodeAddressFollower } from "../../roles/coild/cluster/node_addresses.ts";
import { NodeSource } from "../../roles/coild/cluster/node_source.ts";
import type { PodEvents } from "../../roles/coild/observe/pod_events.ts";
import type { PodSource } from "../../roles/coild/cluster/pod_source.ts";
import { Readiness } from "../../roles/coild/observe/readiness.ts";
import { LeakRelease } from "../../roles/coild/pods/leak_release.ts";
import { Reconciler } from "../../roles/coild/pods/reconciler.ts";
import { RouteRepair } from "../../roles/coild/network/route_repair.ts";
import { start, START_CONDITIONS } from "../../roles/coild/pods/startup.ts";
import { Teardown } from "../../roles/coild/pods/teardown.ts";
import type { Life, Steps } from "./scheduler.ts";
import { type SimKernel, SimNetwork } from "./sim_kernel.ts";
import type { Faults } from "./sim_transport.ts";
import { type AttachmentKey, keyText } from "../../lib/cni/mod.ts";

/** Where everything is simulated. */
export interface SimWorld {
  readonly scheduler: Steps;
  readonly faults: () => Faults;
  /** How a process reaches the API server. */
  readonly connect: (life: Life) => Transport;
}

/** What a coild works with besides addresses: its pods and their egress. */
export interface SimParts {
  readonly pods: PodSource;
  readonly egress: EgressCalls;
  readonly loops: Loops;
}

/** Times of a coild. */
export interface SimTiming {
  /** About how often it compares, and looks at each block. */
  readonly intervalMs: number;
  readonly ipam: Partial<NodeIpamOptions>;
}

/** So short that a schedule has all of it many times. */
const SHORT: SimTiming = {
  intervalMs: 1_000,
  ipam: {
    requestTimeoutMs: 3_000,
    returnDelayMs: 200,
    cooldownMs: 0,
    graceMs: 3_000,
    confirmMs: 500,
    relistMs: 5_000,
  },
};

/** One life of coild on a node. */
export class SimCoild {
  readonly life: Life;
  readonly service: CniService;
  readonly ipam: NodeIpam;
  readonly readiness: Readiness = new Readiness(START_CONDITIONS);
  readonly #group = new TaskGroup();
  readonly #teardown: Teardown;
  readonly #locks: KeyedMutex = new KeyedMutex();
  readonly #leaks: LeakRelease;

  constructor(
    world: SimWorld,
    { node: nodeName, kernel, life, timing = SHORT, partsOf = simpleParts }: {
      readonly node: string;
      readonly kernel: SimKernel;
      readonly life: Life;
      readonly timing?: SimTiming;
      readonly partsOf?: (client: KubeClient) => SimParts;
    },
  ) {
    this.life = life;
    const client = new KubeClient(world.connect(life));
    // It has what is called here.
    const network = new SimNetwork(
      { ...world, kernel, life },
    ) as unknown as PodNetwork;
    const node = new NodeSource(client, nodeName);
    const { intervalMs } = timing;
    const blocks = supplyOfPools({
      client,
      nodeName,
      node,
      options: { lowWater: -1, reconcileIntervalMs: intervalMs },
    });
    const { pods, egress, loops: others } = partsOf(client);
    const metrics = new CoildMetrics(new Registry());
    const locks = this.#locks;
    const ipam = new NodeIpam({
      kernel: network,
      routes: {
        sync: () => world.scheduler.point(`${life.name}: export`, life),
      },
      isBusy: (key) => locks.isLocked(key),
      ...blocks.ipam,
      ...timing.ipam,
    });
    const teardown = new Teardown({ ipam, network });
    const networks = new NetworkMemory();
    const repair = new RouteRepair({
      ipam,
      network,
      locks,
      reports: { repaired() {} },
    });
    const shared = {
      ipam,
      network,
      pods,
      blocks,
      teardown,
      networks,
      locks,
      repair,
    };
    const garbage = new GarbageCollector(shared);
    const reconciler = new Reconciler({
      ...shared,
      metrics,
      intervalMs,
      quarantine: { report: () => {} },
      former: { note() {} },
    });
    const attachments = new AddressedPods({
      ...shared,
      metrics,
      garbage,
      later: queueMicrotask,
    });
    const addresses = new NodeAddressFollower(node, network);
    this.#leaks = new LeakRelease({
      ...shared,
      pods: {
        // Pods' statuses are always behind; the kernel alone has to protect them.
        listLive: async () => {
          await world.scheduler.point(`${life.name}: list pods`, life);
          if (!world.scheduler.random.chance(world.faults().lost)) return [];
          throw new KubeUnreachableError("simulated");
        },
      },
      nodeEvents: { record() {} },
      former: { note() {} },
    });
    this.ipam = ipam;
    this.#teardown = teardown;
    this.service = new CniService({
      attachments,
      egress,
      pods,
      events: { addFailed() {} } as unknown as PodEvents,
      metrics,
      readiness: this.readiness,
      locks,
    });
    blocks.follow(ipam);
    const { readiness } = this;
    const loops: Loops = {
      "node ipam": (signal) => ipam.run(signal),
      "node informer": (signal) => node.run(signal),
      ...blocks.loops,
      ...others,
      "coild": async (signal) => {
        const sources = { ensureTable: () => Promise.resolve(false) };
        const prepared = new Gate();
        const parts = {
          ...shared,
          node,
          addresses,
          readiness,
          sources,
          prepared,
        };
        await start(parts, { signal });
        await reconciler.run(signal);
      },
    };
    this.#group.runAll(loops);
    this.#group.wait().catch((error: unknown) => {
      if (!life.isOver) throw error;
    });
  }

  /** Containers whose addresses are being released, but by nobody: who does that has the lock of the key. */
  get abandoned(): string[] {
    return this.ipam.list().filter((record) =>
      record.state === "releasing" && !this.#locks.isLocked(keyText(record))
    ).map(({ containerId }) => containerId);
  }

  /** As `coil ipam check --local --repair` does with what it takes for leaked: here, with all there is. Returns how many were freed. */
  async repair(): Promise<number> {
    const entries = this.ipam.list().map((
      { containerId, ifname, generation },
    ) => ({
      containerId,
      ifname,
      generation,
    }));
    const { results } = await this.#leaks.release({ entries, dryRun: false });
    return results.filter(({ outcome }) => outcome === "freed").length;
  }

  /** Dies: nothing that it still does has any effect. */
  kill(): void {
    this.life.isOver = true;
    this.#group.abort(new Error("killed"));
    this.#teardown[Symbol.asyncDispose]().catch(() => {});
    this.ipam[Symbol.asyncDispose]().catch(() => {});
  }
}

/** The message that the plugin sends. */
export function cniArgs(
  { containerId, ifname }: AttachmentKey,
  { pool, valid }: {
    readonly pool?: string;
    readonly valid?: readonly AttachmentKey[];
  } = {},
): CNIArgs {
  const config = {
    cniVersion: "1.1.0",
    name: "k8s-pod-network",
    ...(valid !== undefined && {
      "cni.dev/valid-attachments": valid.map((key) => ({
        containerID: key.containerId,
        ifname: key.ifname,
      })),
    }),
  };
  return create(CNIArgsSchema, {
    containerId,
    ifname,
    netns: "/run/netns/simulated",
    args: { K8S_POD_NAME: containerId, K8S_POD_NAMESPACE: pool ?? "" },
    stdinData: new TextEncoder().encode(JSON.stringify(config)),
    validAttachments: [...valid ?? []],
  });
}

function simpleParts(): SimParts {
  return { pods: podsOf(), egress: NO_EGRESS, loops: {} };
}

/** A namespace has the name of its pool; what pods there are coild need not know. */
function podsOf(): PodSource {
  const pods: Partial<PodSource> = {
    isSynced: true,
    synced: () => Promise.resolve(),
    list: () => [],
    poolsOf: ({ namespace }) =>
      Promise.resolve({
        kind: "chosen",
        pools: [namespace],
        from: "namespace",
      }),
    sourcesOf: () => Promise.resolve("own" as const),
    find: ({ namespace, name }) =>
      Promise.resolve({
        namespace,
        name,
        annotations: {},
        from: "cache" as const,
        isGateway: false,
      }),
  };
  return pods as PodSource;
}
