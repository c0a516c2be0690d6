import * as path from "node:path";
import {
  EVENTS,
  type KubeClient,
  PODS,
  type V1Pod,
} from "../../lib/kube/mod.ts";
import { POD_IMAGE } from "../lab/cluster/mod.ts";
import { type ControlPlane, eventually } from "../lab/mod.ts";

const READY_MS = 300_000;

/** Port of `podtool serve`. */
export const HTTP_PORT = 8080;
/** Port of its answers to datagrams. */
export const UDP_PORT = 9000;

/** What differs from pod to pod. */
export interface PodOptions {
  readonly name: string;
  readonly namespace?: string;
  /** Name of the node; the scheduler chooses without it. */
  readonly node?: string;
  /** Arguments of podtool; `serve` without them. */
  readonly args?: readonly string[];
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly hostNetwork?: boolean;
  /** What it asks for of the processor, e.g. `200m`; 10m by default. */
  readonly cpu?: string;
  /** Port of the node that leads to the pod's. */
  readonly hostPort?: number;
}

/** A pod that has its network. */
export interface RunningPod {
  readonly name: string;
  readonly namespace: string;
  readonly node: string;
  readonly uid: string;
  readonly addresses: readonly string[];
}

/** A template of pods, for workloads; `restartPolicy` is the API server's default. */
export function podSpec(
  options: Omit<PodOptions, "name" | "namespace"> = {},
): NonNullable<V1Pod["spec"]> {
  return {
    ...(options.node === undefined ? {} : { nodeName: options.node }),
    ...(options.hostNetwork === undefined
      ? {}
      : { hostNetwork: options.hostNetwork }),
    // Nobody serves names in the lab, and nobody wants to wait for an end.
    dnsPolicy: "Default",
    terminationGracePeriodSeconds: 5,
    // A node that is drained or off for a moment keeps its pods.
    tolerations: [{ operator: "Exists", effect: "NoExecute" }],
    enableServiceLinks: false,
    automountServiceAccountToken: false,
    containers: [{
      name: "main",
      image: POD_IMAGE,
      imagePullPolicy: "Never",
      command: ["/podtool", ...options.args ?? ["serve"]],
      // Pods that ask for nothing stand still while the node's others are busy.
      resources: { requests: { cpu: options.cpu ?? "10m" } },
      ...(options.hostPort === undefined ? {} : {
        ports: [{ containerPort: HTTP_PORT, hostPort: options.hostPort }],
      }),
    }],
  };
}

/** Makes pods and looks into them. */
export class PodRunner {
  readonly #plane: ControlPlane;
  readonly #client: KubeClient;

  constructor(plane: ControlPlane, client: KubeClient) {
    this.#plane = plane;
    this.#client = client;
  }

  /** Creates the Pod object. */
  async create(options: PodOptions): Promise<V1Pod> {
    const { name, namespace = "default", labels = {}, annotations } = options;
    return await this.#client.create(PODS, {
      metadata: {
        name,
        namespace,
        labels: { app: name, ...labels },
        ...(annotations === undefined ? {} : { annotations }),
      },
      spec: podSpec(options),
    });
  }

  /** Creates it and waits until it is Ready. */
  async run(options: PodOptions): Promise<RunningPod> {
    await this.create(options);
    return await this.ready(options.name, options);
  }

  /** Waits until the pod of this name is Ready. */
  async ready(
    name: string,
    options: { readonly namespace?: string; readonly not?: string } = {},
  ): Promise<RunningPod> {
    const { namespace = "default", not } = options;
    try {
      return await eventually(`pod "${name}" to be Ready`, async () => {
        const pod = await this.#client.tryGet(PODS, { name, namespace });
        if (pod === undefined || pod.metadata?.uid === not) return undefined;
        return isReady(pod) ? runningOf(pod) : undefined;
      }, { timeoutMs: READY_MS, intervalMs: 200 });
    } catch (cause) {
      const said = await Promise.all([
        this.#lastEvents(name, namespace),
        this.#lastLines(name),
      ].map((words) => words.catch(String)));
      throw new Error(`Cannot run pod "${name}": ${said.join("\n")}`, {
        cause,
      });
    }
  }

  /** Why a pod is as it is, in the words of who works at it. */
  async #lastEvents(name: string, namespace: string): Promise<string> {
    const { items } = await this.#client.list(EVENTS, {
      namespace,
      fieldSelector: `involvedObject.name=${name}`,
    });
    return items.map(({ reason, message }) => `${reason}: ${message}`)
      .slice(-5).join("; ");
  }

  /** What kubelet and containerd of each node logged of it last, and last of all: there is no Event while kubelet waits. */
  async #lastLines(name: string): Promise<string> {
    const logs = path.join(this.#plane.runDir, "logs");
    const said: string[] = [];
    for await (const { name: file } of Deno.readDir(logs)) {
      if (!/-(kubelet|containerd)\.log$/.test(file)) continue;
      const text = await Deno.readTextFile(path.join(logs, file));
      const lines = text.trimEnd().split("\n");
      const ofPod = lines.filter((line) => line.includes(name)).slice(-10);
      said.push(...ofPod.concat(lines.slice(-2)).map((l) => `${file}: ${l}`));
    }
    return said.join("\n");
  }

  /** All pods of a namespace with such labels. */
  async list(
    options: { readonly namespace?: string; readonly labelSelector?: string } =
      {},
  ): Promise<readonly V1Pod[]> {
    return (await this.#client.list(PODS, options)).items;
  }

  /** Deletes pods and waits until their objects are gone: kubelet has ended them then. */
  async remove(...pods: readonly RunningPod[]): Promise<void> {
    for (const { name, namespace } of pods) {
      await this.#client.delete(PODS, { name, namespace });
    }
    for (const { name, namespace, uid } of pods) {
      await eventually(`pod "${name}" to be gone`, async () => {
        const pod = await this.#client.tryGet(PODS, { name, namespace });
        return pod?.metadata?.uid !== uid;
      }, { timeoutMs: READY_MS, intervalMs: 200 });
    }
  }

  /** Runs podtool in a pod, through the API server, kubelet and containerd. */
  async exec(pod: RunningPod, ...args: string[]): Promise<string> {
    const { namespace, name } = pod;
    return await this.#plane.kubectl(
      ...["exec", "-n", namespace, name, "--", "/podtool", ...args],
    );
  }
}

/** The pod as the kubelet reports it. */
export function runningOf(pod: V1Pod): RunningPod {
  return {
    name: pod.metadata?.name ?? "",
    namespace: pod.metadata?.namespace ?? "",
    node: pod.spec?.nodeName ?? "",
    uid: pod.metadata?.uid ?? "",
    addresses: (pod.status?.podIPs ?? []).map(({ ip }) => ip),
  };
}

export function isReady(pod: V1Pod): boolean {
  return pod.status?.conditions?.some((c) =>
    c.type === "Ready" && c.status === "True"
  ) ?? false;
}
