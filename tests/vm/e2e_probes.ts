// Pods of `coil connectivity test`: the command makes them, this does what a
// kubelet does, and has a kubectl whose exec runs a command in a pod's network.
import * as path from "node:path";
import { sleep, TaskGroup } from "../../lib/async/mod.ts";
import { NODES, PODS, type V1Pod } from "../../lib/kube/mod.ts";
import { POD_NAME_ENV } from "../../lib/names/mod.ts";
import { type LabProcess, spawnProcess } from "../lab/process.ts";
import { type EgressCluster, executablePath } from "./e2e_cluster.ts";
import type { VmPod } from "./e2e_pods.ts";

/** Namespace that the command makes. */
const NAMESPACE = "coil-connectivity-test";
const PERIOD_MS = 250;

interface RunningProbe {
  readonly pod: VmPod;
  readonly process: LabProcess;
}

/** Runs the pods of the command until it is disposed of. */
export class ProbeKubelet implements AsyncDisposable {
  /** Directory with the kubectl. */
  readonly binDir: string;
  readonly #cluster: EgressCluster;
  readonly #probes = new Map<string, RunningProbe>();
  readonly #stop = new AbortController();
  readonly #tasks = new TaskGroup();

  private constructor(cluster: EgressCluster, binDir: string) {
    this.#cluster = cluster;
    this.binDir = binDir;
    this.#tasks.run("pods", () => this.#loop());
  }

  /** Makes the nodes Ready, until it is disposed of. */
  static async start(cluster: EgressCluster): Promise<ProbeKubelet> {
    const binDir = path.join(cluster.access.runDir, "kubectl");
    await Deno.mkdir(path.join(binDir, NAMESPACE), { recursive: true });
    await Deno.writeTextFile(path.join(binDir, "kubectl"), kubectl(binDir), {
      mode: 0o700,
    });
    await setReady(cluster, [{ type: "Ready", status: "True" }]);
    return new ProbeKubelet(cluster, binDir);
  }

  async #loop(): Promise<void> {
    const { client } = this.#cluster.access;
    const { signal } = this.#stop;
    while (!signal.aborted) {
      const { items } = await client.listAll(PODS, { namespace: NAMESPACE });
      await Promise.all(items.map((pod) => this.#sync(pod)));
      await sleep(PERIOD_MS, { signal }).catch(() => {});
    }
  }

  async #sync(pod: V1Pod): Promise<void> {
    const { uid = "", deletionTimestamp } = pod.metadata ?? {};
    const running = this.#probes.get(uid);
    if (deletionTimestamp !== undefined) await this.#end(pod, running);
    else if (running === undefined) await this.#start(pod);
  }

  async #start(pod: V1Pod): Promise<void> {
    const { access, nodes, runtime } = this.#cluster;
    const { namespace = "", name = "", uid = "" } = pod.metadata ?? {};
    const node = nodes.find((one) => one.name === pod.spec?.nodeName);
    const [container] = pod.spec?.containers ?? [];
    if (node === undefined || container === undefined) {
      throw new Error(`Cannot run pod "${name}": it has no node`);
    }
    const running = await runtime.start({ namespace, name, uid }, node);
    const process = await spawnProcess({
      id: name,
      runDir: access.runDir,
      netns: running.sandbox.netns,
      command: executablePath(),
      args: container.command?.slice(1) ?? [],
      // By it a probe answers; in a container it is the host's name.
      env: { [POD_NAME_ENV]: name },
    });
    this.#probes.set(uid, { pod: running, process });
    await Deno.writeTextFile(
      path.join(this.binDir, namespace, name),
      running.sandbox.netns,
    );
    await access.client.patch<V1Pod>(PODS, { namespace, name }, {
      status: {
        containerStatuses: [{
          name: container.name,
          image: "",
          imageID: "",
          restartCount: 0,
          ready: true,
          state: { running: {} },
        }],
      },
    }, { kind: "merge", subresource: "status" });
    await runtime.report(running, { ready: true });
  }

  async #end(pod: V1Pod, running: RunningProbe | undefined): Promise<void> {
    const { access, runtime } = this.#cluster;
    const { namespace = "", name = "", uid = "" } = pod.metadata ?? {};
    if (running !== undefined) {
      await running.process.kill9();
      await runtime.stop(running.pod);
      this.#probes.delete(uid);
    }
    await access.client.delete(PODS, {
      namespace,
      name,
      gracePeriodSeconds: 0,
      preconditions: { uid },
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    await this.#tasks.wait();
    for (const { pod, process } of this.#probes.values()) {
      await process.kill9();
      await this.#cluster.runtime.stop(pod);
    }
    await setReady(this.#cluster, null);
  }
}

async function setReady(
  { access, nodes }: EgressCluster,
  conditions: readonly object[] | null,
): Promise<void> {
  for (const { name } of nodes) {
    await access.client.patch(NODES, { name }, { status: { conditions } }, {
      kind: "merge",
      subresource: "status",
    });
  }
}

/** Runs `kubectl -n NAMESPACE exec POD -c CONTAINER -i -- coil ARGS`. */
function kubectl(binDir: string): string {
  return `#!/bin/sh
while [ $# -gt 0 ]; do
  case $1 in
  -n) namespace=$2; shift 2 ;;
  exec) pod=$2; shift 2 ;;
  -c) shift 2 ;;
  --) shift 2; break ;;
  *) shift ;;
  esac
done
netns=$(cat "${binDir}/$namespace/$pod") || exit 1
exec nsenter "--net=/run/netns/$netns" "${executablePath()}" "$@"
`;
}
