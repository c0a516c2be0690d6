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
import { NodeIpam } from "../../lib/ipam/mod.ts";
import { KubeClient, KubeUnreachableError } from "../../lib/kube/mod.ts";
import type { PodNetwork } from "../../lib/podnet/mod.ts";
import { AddressedPods } from "../../roles/coild/pods/addressed_pods.ts";
import { BlockClient } from "../../roles/coild/blocks/client.ts";
import { BlockRequests } from "../../roles/coild/blocks/requests.ts";
import { CniService } from "../../roles/coild/service/cni_service.ts";
import { NO_EGRESS } from "../../roles/coild/egress/calls.ts";
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
import type { Life, Scheduler } from "./scheduler.ts";
import type { SimApi, SimRequest } from "./sim_api.ts";
import { type SimKernel, SimNetwork } from "./sim_kernel.ts";
import { type Faults, SimTransport } from "./sim_transport.ts";
import { type AttachmentKey, keyText } from "../../lib/cni/mod.ts";

/** Where everything is simulated. */
export interface SimWorld {
  readonly api: SimApi;
  readonly scheduler: Scheduler;
  readonly faults: () => Faults;
  readonly onRequest?: (request: SimRequest) => void;
}

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
    { node: nodeName, kernel, life }: {
      readonly node: string;
      readonly kernel: SimKernel;
      readonly life: Life;
    },
  ) {
    this.life = life;
    const client = new KubeClient(new SimTransport({ ...world, life }));
    // It has what is called here.
    const network = new SimNetwork(
      { ...world, kernel, life },
    ) as unknown as PodNetwork;
    const node = new NodeSource(client, nodeName);
    const requests = new BlockRequests({
      client,
      node,
      onLateAnswer: (block) => blocks.expect(block),
    });
    const blocks = new BlockClient({
      client,
      nodeName,
      requests,
      lookMs: 1_000,
    });
    const metrics = new CoildMetrics(new Registry());
    const locks = this.#locks;
    const ipam = new NodeIpam({
      source: blocks,
      kernel: network,
      routes: {
        sync: () => world.scheduler.point(`${life.name}: export`, life),
      },
      requestTimeoutMs: 3_000,
      returnDelayMs: 200,
      cooldownMs: 0,
      isBusy: (key) => locks.isLocked(key),
      graceMs: 3_000,
      confirmMs: 500,
      relistMs: 5_000,
    });
    const teardown = new Teardown({ ipam, network });
    const networks = new NetworkMemory();
    const repair = new RouteRepair({
      ipam,
      network,
      locks,
      reports: { repaired() {} },
    });
    const pods = podsOf();
    const shared = {
      ipam,
      network,
      pods,
      blocks: {
        poolNames: () => blocks.poolNames(),
        exports: true,
        synced: Promise.resolve(),
      },
      teardown,
      networks,
      locks,
      repair,
    };
    const garbage = new GarbageCollector(shared);
    const reconciler = new Reconciler({
      ...shared,
      metrics,
      intervalMs: 1_000,
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
      egress: NO_EGRESS,
      pods,
      events: { addFailed() {} } as unknown as PodEvents,
      metrics,
      readiness: this.readiness,
      locks,
    });
    blocks.onBlocksChanged((list) => ipam.onBlocksChanged(list));
    blocks.onPoolsChanged(() => ipam.onPoolsChanged());
    const { readiness } = this;
    const loops: Loops = {
      "node ipam": (signal) => ipam.run(signal),
      "node informer": (signal) => node.run(signal),
      ...requests.loops,
      ...blocks.loops,
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

/** A namespace has the name of its pool; what pods there are coild need not know. */
function podsOf(): PodSource {
  const pods: Partial<PodSource> = {
    isSynced: true,
    synced: () => Promise.resolve(),
    list: () => [],
    poolsOf: ({ namespace }) => Promise.resolve([namespace]),
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
