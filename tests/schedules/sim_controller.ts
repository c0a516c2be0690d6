/** coil-controller's address management as it is, with a simulated API server. */
import { Registry } from "prom-client";
import { abortable, TaskGroup } from "../../lib/async/mod.ts";
import {
  type EventRecorder,
  KubeClient,
  KubeMetrics,
} from "../../lib/kube/mod.ts";
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
    { lead = Promise.resolve(), followsPods = false, ...options }: {
      /** A standby leads when this resolves. */
      readonly lead?: Promise<void>;
      readonly followsPods?: boolean;
    } & Partial<Omit<IpamPartOptions, "heap" | "pods">> = {},
  ) {
    this.life = life;
    const registry = new Registry();
    const parts = {
      client: new KubeClient(world.connect(life)),
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
    this.#run(parts, { lead, followsPods }).catch((error: unknown) => {
      if (!life.isOver) throw error;
    });
  }

  async #run(
    options: IpamPartOptions,
    { lead, followsPods }: {
      readonly lead: Promise<void>;
      readonly followsPods: boolean;
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
    const work = openIpam({ ...options, pods }, group);
    await abortable(lead, group.signal);
    await work(group.signal);
  }

  /** Dies: nothing that it still does has any effect. */
  kill(): void {
    this.life.isOver = true;
    this.#stop.abort(new Error("killed"));
  }
}
