/** coil-controller as it is, with a simulated API server: address management, and Egresses if asked for. */
import { Registry } from "prom-client";
import { abortable, TaskGroup } from "../../lib/async/mod.ts";
import {
  type EventRecorder,
  KubeClient,
  KubeMetrics,
  LeaderElector,
} from "../../lib/kube/mod.ts";
import {
  EGRESS_LEASE,
  IPAM_LEASE,
  SYSTEM_NAMESPACE,
} from "../../lib/names/mod.ts";
import {
  type EgressPartOptions,
  openEgress,
} from "../../roles/coil_controller/egress_part.ts";
import {
  type IpamPartOptions,
  openIpam,
} from "../../roles/coil_controller/ipam_part.ts";
import { openPods } from "../../roles/coil_controller/pods_part.ts";
import { IpamMetrics } from "../../roles/coil_controller/ipam/metrics.ts";
import type { Life } from "./scheduler.ts";
import type { SimWorld } from "./sim_node.ts";

/** One life of the controller, as the leader. */
export class SimController {
  readonly life: Life;
  readonly #stop = new AbortController();

  constructor(
    world: SimWorld,
    life: Life,
    {
      lead = Promise.resolve(),
      identity,
      followsPods = false,
      egress,
      ...options
    }: {
      /** A standby leads when this resolves, unless it has an identity. */
      readonly lead?: Promise<void>;
      /** Each part leads while it has its lease. */
      readonly identity?: string | undefined;
      readonly followsPods?: boolean;
      /** Of the part for Egresses, which needs the pods. */
      readonly egress?: Pick<EgressPartOptions, "settings" | "image">;
    } & Partial<Omit<IpamPartOptions, "heap" | "pods">> = {},
  ) {
    this.life = life;
    const registry = new Registry();
    const parts = {
      client: new KubeClient(world.connect(life), {
        fieldManager: "coil-controller",
      }),
      registry,
      events: { event() {} } as unknown as EventRecorder,
      metrics: new IpamMetrics(registry),
      kubeMetrics: new KubeMetrics(registry),
      gcIntervalMs: 60_000,
      nodeGraceMs: 0,
      nodeAddressFactor: 0,
      maxPodsPerNode: 1000,
      concurrentRequests: 4,
      // The heap is the test's.
      heap: { note() {} },
      ...options,
    };
    const run = this.#run(parts, { lead, identity, followsPods, egress });
    run.catch((error: unknown) => {
      if (!life.isOver) throw error;
    });
  }

  async #run(
    options: IpamPartOptions & Pick<EgressPartOptions, "registry">,
    { lead, identity, followsPods, egress }: {
      readonly lead: Promise<void>;
      readonly identity: string | undefined;
      readonly followsPods: boolean;
      readonly egress:
        | Pick<EgressPartOptions, "settings" | "image">
        | undefined;
    },
  ): Promise<void> {
    await using group = new TaskGroup({ signal: this.#stop.signal });
    const { client, heap } = options;
    const pods = followsPods
      ? openPods(client, group, {
        everyAddress: true,
        namespaceEgress: true,
        heap,
      })
      : undefined;
    const { signal } = group;
    const parts = new Map([
      [IPAM_LEASE, openIpam({ ...options, pods }, group)],
    ]);
    if (egress !== undefined && pods !== undefined) {
      const part = openEgress({ ...options, ...egress, pods }, group);
      parts.set(EGRESS_LEASE, part);
    }
    if (identity === undefined) await abortable(lead, signal);
    const leading = [...parts].map(([name, work]) => {
      if (identity === undefined) return work(signal);
      const namespace = SYSTEM_NAMESPACE;
      return new LeaderElector(client, { namespace, name, identity })
        .run(signal, work);
    });
    await Promise.all(leading);
  }

  /** Dies: nothing that it still does has any effect. */
  kill(): void {
    this.life.isOver = true;
    this.#stop.abort(new Error("killed"));
  }
}
