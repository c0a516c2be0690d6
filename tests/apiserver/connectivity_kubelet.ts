// A kubelet for pods of coil connectivity test: it reports that they run, and
// ends them. Nothing runs.
import { TaskGroup } from "../../lib/async/mod.ts";
import type { V1Pod } from "../../lib/kube/mod.ts";
import { type ControlPlane, sleep } from "../lab/mod.ts";
import { patchStatus } from "./patch_status.ts";

const PERIOD_MS = 200;
/** kube-controller-manager calls a node unknown after 50 s. */
const HEARTBEAT_MS = 10_000;

/** Reports all pods of the nodes that it makes. */
export class PodReporter implements AsyncDisposable {
  readonly #plane: ControlPlane;
  readonly #nodes: readonly string[];
  readonly #tasks = new TaskGroup();
  readonly #stop = new AbortController();
  /** What becomes of new pods: they run, lack their image, or wait for a network. */
  pods: "running" | "without image" | "without network" = "running";

  /** Starts with nodes of these names. */
  constructor(plane: ControlPlane, nodes: readonly string[]) {
    this.#plane = plane;
    this.#nodes = nodes;
    this.#tasks.run("pods", () => this.#loop());
  }

  /** Makes the nodes, and makes them Ready. */
  async register(): Promise<void> {
    for (const name of this.#nodes) {
      const metadata = { name };
      await this.#plane.apply({ apiVersion: "v1", kind: "Node", metadata });
    }
    await this.#beat();
  }

  async #loop(): Promise<void> {
    let beaten = performance.now();
    while (!this.#stop.signal.aborted) {
      const { items } = await this.#plane.request("GET", "/api/v1/pods") as {
        items: V1Pod[];
      };
      for (const pod of items) {
        if (!this.#nodes.includes(pod.spec?.nodeName ?? "")) continue;
        // The namespace may go in the meantime.
        await this.#report(pod).catch(() => {});
      }
      if (performance.now() - beaten > HEARTBEAT_MS) {
        beaten = performance.now();
        await this.#beat();
      }
      await sleep(PERIOD_MS);
    }
  }

  async #report({ metadata, status }: V1Pod): Promise<void> {
    const path =
      `/api/v1/namespaces/${metadata?.namespace}/pods/${metadata?.name}`;
    if (metadata?.deletionTimestamp !== undefined) {
      await this.#plane.request("DELETE", path, { gracePeriodSeconds: 0 });
    } else if (
      this.pods !== "without network" && status?.podIPs === undefined
    ) {
      const startedAt = new Date().toISOString();
      const state = this.pods === "running" ? { running: { startedAt } } : {
        waiting: {
          reason: "ImagePullBackOff",
          message: 'Back-off pulling image "x"',
        },
      };
      await patchStatus(this.#plane, path, {
        phase: this.pods === "running" ? "Running" : "Pending",
        podIP: "10.1.0.1",
        podIPs: [{ ip: "10.1.0.1" }],
        containerStatuses: [{
          name: "probe",
          image: "",
          imageID: "",
          restartCount: 0,
          ready: this.pods === "running",
          state,
        }],
      });
    }
  }

  async #beat(): Promise<void> {
    const lastHeartbeatTime = new Date().toISOString();
    for (const name of this.#nodes) {
      await patchStatus(this.#plane, `/api/v1/nodes/${name}`, {
        conditions: [{ type: "Ready", status: "True", lastHeartbeatTime }],
      });
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    await this.#tasks.wait();
  }
}
