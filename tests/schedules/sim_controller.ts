/** coil-controller's address management as it is, with a simulated API server. */
import { Registry } from "prom-client";
import { TaskGroup } from "../../lib/async/mod.ts";
import {
  type EventRecorder,
  KubeClient,
  KubeMetrics,
} from "../../lib/kube/mod.ts";
import {
  type IpamPartOptions,
  openIpam,
} from "../../roles/coil_controller/ipam_part.ts";
import { IpamMetrics } from "../../roles/coil_controller/ipam/metrics.ts";
import type { Life } from "./scheduler.ts";
import type { SimWorld } from "./sim_node.ts";
import { SimTransport } from "./sim_transport.ts";

/** One life of the controller, as the leader. */
export class SimController {
  readonly life: Life;
  readonly #stop = new AbortController();

  constructor(world: SimWorld, life: Life) {
    this.life = life;
    const registry = new Registry();
    this.#run({
      client: new KubeClient(new SimTransport({ ...world, life })),
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
    }).catch((error: unknown) => {
      if (!life.isOver) throw error;
    });
  }

  async #run(options: IpamPartOptions): Promise<void> {
    await using group = new TaskGroup({ signal: this.#stop.signal });
    await openIpam(options, group)(group.signal);
  }

  /** Dies: nothing that it still does has any effect. */
  kill(): void {
    this.life.isOver = true;
    this.#stop.abort(new Error("killed"));
  }
}
