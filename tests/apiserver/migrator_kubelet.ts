/**
 * Nodes for tests of the migration: places the pods that the real controllers make, gives them their network by v1's
 * wiring or by coild, reports them ready, and ends them, as scheduler, kubelet and runtime do.
 */
import { TaskGroup } from "../../lib/async/mod.ts";
import type { V1Pod } from "../../lib/kube/mod.ts";
import { eventually, type LabNode, run, sleep } from "../lab/mod.ts";
import { type Coild, type CoildLab, inPod, type Sandbox } from "./coild_lab.ts";
import type { V1Network } from "./migrator_v1.ts";
import { patchStatus } from "./patch_status.ts";

const PERIOD_MS = 200;
/** Half of what kube-controller-manager waits before it calls a node unknown. */
const HEARTBEAT_MS = 10_000;

/** A pod that runs. */
export interface RunningPod {
  readonly uid: string;
  readonly namespace: string;
  readonly name: string;
  readonly node: LabNode;
  readonly sandbox: Sandbox;
  readonly address: string;
  /** Who gave it its address. */
  readonly network: "v1" | "v2";
  /** Whether the API server has been asked to delete it. */
  deleting: boolean;
}

/** How {@linkcode LabKubelet} behaves. */
export interface KubeletOptions {
  readonly lab: CoildLab;
  readonly v1: V1Network;
}

/** Runs all pods of a lab. */
export class LabKubelet implements AsyncDisposable {
  readonly #lab: CoildLab;
  readonly #v1: V1Network;
  readonly #pods = new Map<string, RunningPod>();
  readonly #coilds = new Map<
    string,
    { readonly uid: string; readonly coild: Coild }
  >();
  readonly #busy = new Set<string>();
  readonly #stop = new AbortController();
  readonly #tasks = new TaskGroup();
  /** Why the last attempt with a pod failed. */
  readonly #trouble = new Map<string, string>();
  /** How many pods of a controller were placed so far. */
  readonly #placed = new Map<string, number>();
  /** Where pods were placed, by UID: a list may be older than the binding. */
  readonly #places = new Map<string, LabNode | undefined>();
  /** Whether pods get their network from coild by now. */
  v2 = false;
  /** Pods that never become ready, and what their container says. */
  stuck: (pod: V1Pod) => string | undefined = () => undefined;
  /** Called when a pod is to end, while it has its network yet. */
  beforeEnd: (pod: RunningPod) => Promise<void> = () => Promise.resolve();
  /** What must not be. */
  readonly violations: string[] = [];
  /** All addresses that were given, with the pod, in order. */
  readonly given: {
    readonly address: string;
    readonly pod: string;
    readonly network: "v1" | "v2";
  }[] = [];

  constructor({ lab, v1 }: KubeletOptions) {
    this.#lab = lab;
    this.#v1 = v1;
    this.#tasks.run("pods", () => this.#loop());
    this.#tasks.run("heartbeats", () => this.#beat());
  }

  /** Pods that have a network, by namespace and name. */
  get running(): readonly RunningPod[] {
    return [...this.#pods.values()].toSorted((a, b) =>
      `${a.namespace}/${a.name}` < `${b.namespace}/${b.name}` ? -1 : 1
    );
  }

  /** Resolves when so many pods run. */
  async settled(count: number): Promise<void> {
    await eventually(`${count} running pods`, () => {
      const live = this.running.filter(({ deleting }) => !deleting);
      if (live.length === count && this.#busy.size === 0) return true;
      const trouble = [...this.#trouble.values()].join("; ");
      throw new Error(`${live.length} are running; ${trouble}`);
    }, { timeoutMs: 240_000 });
  }

  async #loop(): Promise<void> {
    while (!this.#stop.signal.aborted) {
      for (const pod of await this.#list()) this.#take(pod);
      await sleep(PERIOD_MS);
    }
  }

  /** Each pod by itself: none waits for another. */
  #take(pod: V1Pod): void {
    const uid = pod.metadata?.uid ?? "";
    if (this.#busy.has(uid)) return;
    this.#busy.add(uid);
    this.#tasks.run(pod.metadata?.name ?? "", async () => {
      try {
        await this.#sync(pod);
        this.#trouble.delete(uid);
      } catch (error) {
        // The API server or coild is away, or somebody was quicker: the next round sees.
        this.#trouble.set(uid, `${pod.metadata?.name}: ${error}`);
      } finally {
        this.#busy.delete(uid);
      }
    });
  }

  async #list(): Promise<V1Pod[]> {
    try {
      const { items } = await this.#lab.plane.request(
        "GET",
        "/api/v1/pods",
      ) as {
        items: V1Pod[];
      };
      return items;
    } catch {
      return []; // the API server is away: the next round sees
    }
  }

  async #sync(pod: V1Pod): Promise<void> {
    const { uid = "", deletionTimestamp } = pod.metadata ?? {};
    const node = this.#nodeOf(pod);
    if (node === undefined) return await this.#bind(pod);
    const known = this.#pods.get(uid);
    if (deletionTimestamp !== undefined) return await this.#end(pod, node);
    if (isReady(pod)) return;
    if (isCoild(pod)) return await this.#startCoild(pod, node);
    if (known !== undefined) {
      // One that was held back may be ready by now.
      if (this.stuck(pod) !== undefined) return;
      return await this.#report(pod, node, known.address);
    }
    if (pod.spec?.hostNetwork) return await this.#report(pod, node, undefined);
    await this.#start(pod, node);
  }

  #nodeOf(pod: V1Pod): LabNode | undefined {
    return this.#lab.nodes.find(({ name }) => name === pod.spec?.nodeName);
  }

  async #bind(pod: V1Pod): Promise<void> {
    const { namespace, name, uid = "" } = pod.metadata ?? {};
    const node = this.#places.getOrInsertComputed(uid, () => this.#place(pod));
    await this.#lab.plane.request(
      "POST",
      `/api/v1/namespaces/${namespace}/pods/${name}/binding`,
      {
        apiVersion: "v1",
        kind: "Binding",
        metadata: { name },
        target: { apiVersion: "v1", kind: "Node", name: node?.name },
      },
    );
  }

  /** Where it is wanted, else where the next one of its controller is due. */
  #place(pod: V1Pod): LabNode | undefined {
    const owner = pod.metadata?.ownerReferences?.[0]?.uid ?? "";
    const turn = this.#placed.get(owner) ?? 0;
    this.#placed.set(owner, turn + 1);
    const wanted = wantedNode(pod);
    const { nodes } = this.#lab;
    return nodes.find((n) => n.name === wanted) ?? nodes[turn % nodes.length];
  }

  async #start(pod: V1Pod, node: LabNode): Promise<void> {
    const { namespace = "", name = "", uid = "" } = pod.metadata ?? {};
    const network = this.v2 ? "v2" : "v1";
    const coild = this.#coilds.get(node.name)?.coild;
    if (network === "v2" && coild === undefined) return;
    const sandbox = await this.#lab.createSandbox(name, { namespace });
    try {
      const address = coild === undefined
        ? await this.#v1.add(sandbox, node)
        : await this.#addV2(coild, sandbox);
      this.#give(address, { pod: `${namespace}/${name}`, network });
      const running = { uid, namespace, name, node, sandbox, address, network };
      this.#pods.set(uid, { ...running, network, deleting: false });
    } catch (error) {
      await run("ip", ["netns", "delete", sandbox.netns]);
      throw error;
    }
    await this.#report(pod, node, this.#pods.get(uid)?.address);
  }

  async #addV2(coild: Coild, sandbox: Sandbox): Promise<string> {
    const [address = ""] = await coild.addresses(sandbox);
    await inPod(sandbox, "ip", "link", "set", "lo", "up");
    return address;
  }

  #give(
    address: string,
    to: { readonly pod: string; readonly network: "v1" | "v2" },
  ): void {
    for (const other of this.#pods.values()) {
      if (other.address !== address) continue;
      this.violations.push(
        `${to.pod} has got ${address}, which ${other.namespace}/${other.name} has`,
      );
    }
    this.given.push({ address, ...to });
  }

  async #end(pod: V1Pod, node: LabNode): Promise<void> {
    const { uid = "", namespace, name } = pod.metadata ?? {};
    const running = this.#pods.get(uid);
    if (running !== undefined) {
      running.deleting = true;
      const coild = this.#coilds.get(node.name)?.coild;
      // v1's plugin is gone with v1: nobody can be asked for a DEL then.
      if (this.v2 && coild === undefined) return;
      await this.beforeEnd(running);
      if (this.v2) await coild?.del(running.sandbox);
      await run("ip", ["netns", "delete", running.sandbox.netns]);
      this.#pods.delete(uid);
    }
    const coild = this.#coilds.get(node.name);
    if (coild?.uid === uid) {
      this.#coilds.delete(node.name);
      await coild.coild[Symbol.asyncDispose]();
    }
    await this.#lab.plane.request(
      "DELETE",
      `/api/v1/namespaces/${namespace}/pods/${name}`,
      { gracePeriodSeconds: 0, preconditions: { uid } },
    );
  }

  async #startCoild(pod: V1Pod, node: LabNode): Promise<void> {
    const uid = pod.metadata?.uid ?? "";
    const known = this.#coilds.get(node.name);
    if (known !== undefined && known.uid !== uid) return;
    if (known === undefined) {
      const coild = await this.#lab.startCoild(node, ["--pod-rule-prio=2000"]);
      this.#coilds.set(node.name, { uid, coild });
    }
    await this.#report(pod, node, undefined);
  }

  async #report(
    pod: V1Pod,
    node: LabNode,
    address: string | undefined,
  ): Promise<void> {
    const { namespace, name } = pod.metadata ?? {};
    const ip = address ?? node.addresses[0];
    const problem = this.stuck(pod);
    const ready = problem === undefined ? "True" : "False";
    const now = new Date().toISOString();
    await this.#lab.plane.request(
      "PATCH",
      `/api/v1/namespaces/${namespace}/pods/${name}/status`,
      {
        status: {
          phase: "Running",
          startTime: now,
          hostIP: node.addresses[0],
          podIP: ip,
          podIPs: [{ ip }],
          conditions: ["Ready", "ContainersReady"].map((type) => ({
            type,
            status: ready,
            lastTransitionTime: now,
          })),
          containerStatuses: [{
            name: "main",
            image: "none",
            imageID: "",
            restartCount: 0,
            ready: problem === undefined,
            state: problem === undefined ? { running: { startedAt: now } } : {
              waiting: { reason: problem, message: "as the test wants it" },
            },
          }],
        },
      },
      { contentType: "application/strategic-merge-patch+json" },
    );
  }

  async #beat(): Promise<void> {
    let nextMs = performance.now();
    while (!this.#stop.signal.aborted) {
      if (performance.now() >= nextMs) {
        nextMs = performance.now() + HEARTBEAT_MS;
        // Away or not: the next one comes soon.
        for (const node of this.#lab.nodes) {
          await this.#heartbeat(node).catch(() => {});
        }
      }
      await sleep(PERIOD_MS);
    }
  }

  async #heartbeat({ name }: LabNode): Promise<void> {
    const condition = { type: "Ready", status: "True", reason: "Lab" };
    const lastHeartbeatTime = new Date().toISOString();
    await patchStatus(this.#lab.plane, `/api/v1/nodes/${name}`, {
      conditions: [{ ...condition, lastHeartbeatTime }],
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    await this.#tasks.wait();
    for (const { coild } of this.#coilds.values()) {
      await coild[Symbol.asyncDispose]();
    }
  }
}

function isCoild({ metadata }: V1Pod): boolean {
  return metadata?.labels?.["app.kubernetes.io/component"] === "coild";
}

function isReady({ status }: V1Pod): boolean {
  return status?.conditions?.some(({ type, status }) =>
    type === "Ready" && status === "True"
  ) ?? false;
}

/** Where the DaemonSet controller wants its pod, or what a nodeSelector names. */
function wantedNode({ spec }: V1Pod): string | undefined {
  const terms = spec?.affinity?.nodeAffinity
    ?.requiredDuringSchedulingIgnoredDuringExecution?.nodeSelectorTerms;
  return terms?.[0]?.matchFields?.[0]?.values?.[0] ??
    spec?.nodeSelector?.["kubernetes.io/hostname"];
}
