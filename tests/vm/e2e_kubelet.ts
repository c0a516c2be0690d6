// Gateways' pods: the real Deployment controller makes them, this puts them on
// nodes and does what a kubelet does: network, container, probes, restarts, end.
import * as path from "node:path";
import { sleep, TaskGroup } from "../../lib/async/mod.ts";
import { EGRESS_SELECTOR } from "../../lib/api/mod.ts";
import { Informer, PODS, type V1Pod } from "../../lib/kube/mod.ts";
import { APP_INSTANCE_LABEL } from "../../lib/names/mod.ts";
import { type LabProcess, spawnProcess } from "../lab/process.ts";
import { writeServiceAccountDir } from "../lab/service_account.ts";
import type { VmAccess } from "./e2e_access.ts";
import type { PodRuntime, VmPod } from "./e2e_pods.ts";
import type { VmNode } from "./topology.ts";

const TOKEN_DIR = "/var/run/secrets/kubernetes.io/serviceaccount";
const HEALTH_PORT = 8081;
const PERIOD_MS = 250;

export interface KubeletOptions {
  readonly access: VmAccess;
  readonly runtime: PodRuntime;
  readonly binDir: string;
  /** Whether the gateways' program knows a flag. */
  readonly knows: (flag: string) => boolean;
  readonly nodes: readonly VmNode[];
  /** How all are probed. */
  readonly probes: GatewayProbes;
}

/**
 * `often`: as tests on a busy machine need it, soon ready and not lost by a slow
 * answer. `wanted`: as the pods say, as a kubelet does.
 */
export type GatewayProbes = "often" | "wanted";

/** A gateway as the kubelet knows it. */
export interface Gateway {
  readonly pod: VmPod;
  /** Of the container that runs now, or ran last. */
  readonly process: LabProcess;
  readonly ready: boolean;
  readonly restarts: number;
}

type MutableGateway =
  & {
    -readonly [K in keyof Gateway]: Gateway[K];
  }
  & {
    ending: Promise<void> | undefined;
    /** What the API server was told last; undefined when it may know it or not. */
    reported: boolean | undefined;
    readonly probe: ReadinessProbe;
    failedProbes: number;
    /** When the next probe is due. */
    probeMs: number;
  };

/** How a pod is probed. */
interface ReadinessProbe {
  readonly periodMs: number;
  readonly timeoutMs: number;
  /** So many probes in a row have to fail. */
  readonly failureThreshold: number;
}

const OFTEN: ReadinessProbe = {
  periodMs: PERIOD_MS,
  // The process that asks is busy with the traffic of tests, too.
  timeoutMs: 5_000,
  failureThreshold: 3,
};

/** Runs the pods of all Egresses on the nodes in turn. */
export class GatewayKubelet implements AsyncDisposable {
  readonly #options: KubeletOptions;
  readonly #pods: Informer<V1Pod>;
  readonly #gateways = new Map<string, MutableGateway>();
  readonly #stop = new AbortController();
  readonly #tasks = new TaskGroup();
  /** The node of each pod that was put on one. */
  readonly #bound = new Map<string, string>();
  readonly #busy = new Set<string>();
  #turn = 0;
  #cordoned = false;

  constructor(options: KubeletOptions) {
    this.#options = options;
    this.#pods = new Informer(options.access.client, PODS, {
      labelSelector: EGRESS_SELECTOR,
    });
    const { signal } = this.#stop;
    this.#tasks.run("pods", () => this.#pods.run(signal));
    this.#tasks.run("loop", () => this.#loop(signal));
  }

  /** The gateways that have a network, by name. */
  gateways(): readonly Gateway[] {
    return [...this.#gateways.values()].toSorted((a, b) =>
      a.pod.name < b.pod.name ? -1 : 1
    );
  }

  /** Puts no further pods on nodes, and starts no container again, until it is disposed of. */
  cordon(): Disposable {
    this.#cordoned = true;
    return { [Symbol.dispose]: () => this.#cordoned = false };
  }

  async #loop(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const pods = this.#pods.store.list();
      for (const pod of pods) {
        this.#alone(
          pod.metadata?.uid ?? "",
          () => this.#sync(pod).catch((error) => this.#unlessGone(pod, error)),
        );
      }
      const known = new Set(pods.map((pod) => pod.metadata?.uid));
      for (const [uid, gateway] of this.#gateways) {
        if (!known.has(uid)) this.#alone(uid, () => this.#kill(gateway));
      }
      await sleep(PERIOD_MS, { signal }).catch(() => {});
    }
  }

  /** Each pod by itself: none waits for another's network. */
  #alone(uid: string, work: () => Promise<void>): void {
    if (this.#busy.has(uid)) return;
    this.#busy.add(uid);
    this.#tasks.run(uid, async () => {
      await work().finally(() => this.#busy.delete(uid));
    });
  }

  async #sync(pod: V1Pod): Promise<void> {
    const { uid = "", deletionTimestamp } = pod.metadata ?? {};
    const gateway = this.#gateways.get(uid);
    if (gateway === undefined) {
      if (deletionTimestamp !== undefined) return await this.#forget(pod);
      const node = await this.#nodeOf(pod);
      if (node !== undefined) await this.#start(pod, node);
      return;
    }
    if (deletionTimestamp !== undefined) {
      // What fails is tried again, as a kubelet does.
      gateway.ending ??= this.#end(pod, gateway).catch(() => {
        gateway.ending = undefined;
      });
    } else if (!gateway.process.isRunning) {
      await this.#setReady(gateway, { ready: false });
      if (!this.#cordoned) {
        gateway.process = await this.#run(pod, gateway.pod);
        gateway.restarts++;
      }
    }
    await this.#probe(gateway);
  }

  /** The node that the pod is on; one that has none yet is bound and comes again. */
  async #nodeOf(pod: V1Pod): Promise<VmNode | undefined> {
    const { nodes, access } = this.#options;
    const { namespace = "", name = "", uid = "" } = pod.metadata ?? {};
    const { nodeName } = pod.spec ?? {};
    if (nodeName) return nodes.find((node) => node.name === nodeName);
    if (this.#cordoned || this.#bound.has(uid)) return undefined;
    const node = this.#emptiestFor(pod);
    this.#bound.set(uid, node?.name ?? "");
    await access.admin.request(
      "POST",
      `/api/v1/namespaces/${namespace}/pods/${name}/binding`,
      {
        apiVersion: "v1",
        kind: "Binding",
        metadata: { name },
        target: { apiVersion: "v1", kind: "Node", name: node?.name },
      },
    );
    return undefined;
  }

  /** As the scheduler spreads an Egress' gateways over nodes. */
  #emptiestFor(pod: V1Pod): VmNode | undefined {
    const { nodes } = this.#options;
    const egress = pod.metadata?.labels?.[APP_INSTANCE_LABEL];
    const taken = this.#pods.store.list().filter(({ metadata }) =>
      metadata?.labels?.[APP_INSTANCE_LABEL] === egress &&
      metadata?.deletionTimestamp === undefined
    ).map(({ metadata, spec }) =>
      spec?.nodeName ?? this.#bound.get(metadata?.uid ?? "")
    );
    const countOn = ({ name }: VmNode) =>
      taken.filter((node) => node === name).length;
    const turn = this.#turn++;
    return nodes.map((_, i) => nodes[(turn + i) % nodes.length] as VmNode)
      .toSorted((a, b) => countOn(a) - countOn(b))[0];
  }

  async #start(pod: V1Pod, node: VmNode): Promise<void> {
    const { namespace = "", name = "", uid = "" } = pod.metadata ?? {};
    const { runtime } = this.#options;
    const running = await runtime.start({ namespace, name, uid }, node);
    let process: LabProcess;
    try {
      await runtime.report(running, { ready: false });
      process = await this.#run(pod, running);
    } catch (error) {
      await runtime.stop(running);
      throw error;
    }
    this.#gateways.set(uid, {
      pod: running,
      process,
      ready: false,
      restarts: 0,
      ending: undefined,
      reported: false,
      probe: this.#options.probes === "often" ? OFTEN : readinessProbeOf(pod),
      failedProbes: 0,
      probeMs: 0,
    });
  }

  /** Starts the container as the pod says: command, arguments and environment are the controller's. */
  async #run(pod: V1Pod, running: VmPod): Promise<LabProcess> {
    const { access, binDir, knows } = this.#options;
    const { namespace, name, uid, sandbox } = running;
    const { serviceAccountName = "", containers = [] } = pod.spec ?? {};
    const container = containers.find((c) => c.name === "egress");
    const [command = ""] = container?.command ?? [];
    const source = await writeServiceAccountDir(access.admin, {
      namespace,
      name: serviceAccountName,
      pod: { name, uid },
    });
    await Deno.mkdir(TOKEN_DIR, { recursive: true });
    return await spawnProcess({
      id: name,
      runDir: access.runDir,
      netns: sandbox.netns,
      command: path.join(binDir, command),
      args: (container?.args ?? []).filter(knows),
      env: {
        HOSTNAME: name,
        ...access.inClusterEnv,
        ...environmentOf(container?.env ?? [], running),
      },
      mounts: [{ source, target: TOKEN_DIR }],
    });
  }

  async #probe(gateway: MutableGateway): Promise<void> {
    const { periodMs, timeoutMs, failureThreshold } = gateway.probe;
    const nowMs = performance.now();
    if (nowMs < gateway.probeMs) return;
    gateway.probeMs = nowMs + periodMs;
    const [address = ""] = gateway.pod.addresses;
    const succeeded = gateway.process.isRunning &&
      await isReady(address, HEALTH_PORT, timeoutMs);
    gateway.failedProbes = succeeded ? 0 : gateway.failedProbes + 1;
    const isStill = gateway.ready && gateway.process.isRunning &&
      gateway.failedProbes < failureThreshold;
    await this.#setReady(gateway, { ready: succeeded || isStill });
  }

  async #setReady(
    gateway: MutableGateway,
    state: { readonly ready: boolean },
  ): Promise<void> {
    if (this.#stop.signal.aborted) return;
    const { ready } = state;
    gateway.ready = ready;
    if (ready === gateway.reported) return;
    gateway.reported = undefined;
    await this.#options.runtime.report(gateway.pod, state).then(
      () => {
        gateway.reported = ready;
      },
      () => {
        // Gone by then, which the informer will tell; else the next probe reports it again, as a kubelet does.
      },
    );
  }

  /** A pod may be deleted amid the work for it, which is no failure of a kubelet. */
  async #unlessGone({ metadata }: V1Pod, error: unknown): Promise<void> {
    const { namespace = "", name = "", uid } = metadata ?? {};
    const { client } = this.#options.access;
    const now = await client.tryGet(PODS, { namespace, name });
    if (now?.metadata?.uid === uid) throw error;
  }

  /** Of a pod that was deleted without grace: the API server has forgotten it already. */
  async #kill(gateway: MutableGateway): Promise<void> {
    if (gateway.ending !== undefined) return;
    await gateway.process.kill9();
    await this.#options.runtime.stop(gateway.pod);
    this.#gateways.delete(gateway.pod.uid);
  }

  async #end(pod: V1Pod, gateway: MutableGateway): Promise<void> {
    const seconds = pod.metadata as { deletionGracePeriodSeconds?: number };
    const graceMs = (seconds.deletionGracePeriodSeconds ?? 30) * 1000;
    await gateway.process.stop({ graceMs });
    await this.#setReady(gateway, { ready: false });
    await this.#options.runtime.stop(gateway.pod);
    this.#gateways.delete(gateway.pod.uid);
    await this.#forget(pod);
  }

  async #forget(pod: V1Pod): Promise<void> {
    const { namespace = "", name = "", uid } = pod.metadata ?? {};
    await this.#options.access.client.delete(PODS, {
      namespace,
      name,
      gracePeriodSeconds: 0,
      preconditions: { uid },
    }).catch((error) => {
      // Somebody else was quicker, or a pod of the same name is there.
      if (!error.isNotFound && !error.isConflict) throw error;
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    try {
      await this.#tasks.wait();
    } finally {
      await this.#killAll();
    }
  }

  async #killAll(): Promise<void> {
    for (const { process, pod, ending } of this.#gateways.values()) {
      await process.kill9();
      if (ending !== undefined) {
        await ending;
        continue;
      }
      await this.#options.runtime.stop(pod).catch(() => {
        // coild may have been ended by its test.
      });
    }
  }
}

type EnvVar = NonNullable<
  NonNullable<V1Pod["spec"]>["containers"][number]["env"]
>[number];

function environmentOf(
  variables: readonly EnvVar[],
  pod: VmPod,
): Record<string, string> {
  const fields: Readonly<Record<string, string>> = {
    "metadata.name": pod.name,
    "metadata.namespace": pod.namespace,
    "spec.nodeName": pod.node.name,
    "status.podIPs": pod.addresses.join(","),
  };
  return Object.fromEntries(variables.map(({ name, value, valueFrom }) => {
    const field = valueFrom?.fieldRef?.fieldPath ?? "";
    return [name, value ?? fields[field] ?? ""];
  }));
}

/** What the pod's container says, else what Kubernetes has by default. */
function readinessProbeOf({ spec }: V1Pod): ReadinessProbe {
  const { containers = [] } = spec ?? {};
  const probe = containers.find((c) => c.name === "egress")?.readinessProbe;
  const { periodSeconds = 10, timeoutSeconds = 1, failureThreshold = 3 } =
    probe ?? {};
  return {
    periodMs: 1_000 * periodSeconds,
    timeoutMs: 1_000 * timeoutSeconds,
    failureThreshold,
  };
}

/** Asks a daemon's `/readyz`. */
export async function isReady(
  address: string,
  port: number,
  timeoutMs = 2_000,
): Promise<boolean> {
  const host = address.includes(":") ? `[${address}]` : address;
  try {
    const response = await fetch(`http://${host}:${port}/readyz`, {
      signal: AbortSignal.timeout(timeoutMs),
    });
    await response.body?.cancel();
    return response.ok;
  } catch {
    return false; // nobody listens yet, or no more
  }
}
