// Pods as a kubelet and a container runtime make them: a namespace, the CNI
// plugin, a status.
import * as path from "node:path";
import { retry } from "../../lib/async/mod.ts";
import { type KubeClient, PODS, type V1Pod } from "../../lib/kube/mod.ts";
import { run } from "../lab/mod.ts";
import {
  addPatiently,
  callPlugin,
  type Sandbox,
  sandboxOf,
} from "../lab/runtime.ts";
import type { VmNode } from "./topology.ts";

/** A pod with its network. */
export interface VmPod {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  readonly node: VmNode;
  readonly sandbox: Sandbox;
  readonly addresses: readonly string[];
  /** What the plugin before Coil's has answered; undefined where there is none. */
  readonly prevResult: unknown;
}

/** Where the CNI project's plugins are. */
const PLUGINS = "/usr/lib/cni";
/** Those whose program is Coil's. */
const OWN_PLUGINS: readonly string[] = ["coil", "coordinator"];

type Command = "ADD" | "DEL";

export interface PodRuntimeOptions {
  readonly client: KubeClient;
  /** A node's directory of the CNI plugin `coil`. */
  readonly pluginsOf: (node: VmNode) => string;
  readonly socketOf: (node: VmNode) => string;
  /** Of the configuration for Coil's plugin, when it comes first. Default 1.1.0. */
  readonly cniVersion?: string;
  /** How often a pod's start is tried, as a kubelet does again and again. Default 1. */
  readonly starts?: number;
  /** Configurations of the plugins that make a pod's network before Coil's, which only adds to it then. */
  readonly first?: (pod: PodRef, node: VmNode) => readonly PluginConfig[];
}

/** A plugin's configuration; `type` is the name of its program. */
export type PluginConfig = Readonly<Record<string, unknown>> & {
  readonly type: string;
};

/** A pod object that is there already. */
export interface PodRef {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
}

/** Makes and removes pods' networks through the real plugin. Disposing of it removes the sandboxes that are left. */
export class PodRuntime implements AsyncDisposable {
  readonly #options: PodRuntimeOptions;
  readonly #sandboxes = new Set<string>();

  constructor(options: PodRuntimeOptions) {
    this.#options = options;
  }

  /** Makes the sandbox and adds it to the network. @throws {Error} with the plugin's message when it refuses for the last time. */
  async start(ref: PodRef, node: VmNode): Promise<VmPod> {
    const { starts = 1 } = this.#options;
    return await retry(() => this.#start(ref, node), { maxAttempts: starts });
  }

  async #start(ref: PodRef, node: VmNode): Promise<VmPod> {
    const netns = `pod-${ref.uid.slice(0, 13)}`;
    await run("ip", ["netns", "add", netns]);
    this.#sandboxes.add(netns);
    try {
      await run("ip", ["-n", netns, "link", "set", "lo", "up"]);
      return await this.#add(ref, { sandbox: sandboxOf(netns, ref), node });
    } catch (error) {
      await this.#remove(netns);
      throw error;
    }
  }

  async #remove(netns: string): Promise<void> {
    this.#sandboxes.delete(netns);
    await run("ip", ["netns", "delete", netns]);
  }

  async #add(
    ref: PodRef,
    where: { readonly sandbox: Sandbox; readonly node: VmNode },
  ): Promise<VmPod> {
    let prevResult: unknown;
    for (const config of this.#firstOf(ref, where.node)) {
      const chained = { ...config, prevResult };
      prevResult = JSON.parse(await this.#call("ADD", chained, where));
    }
    const pod = { ...ref, ...where, prevResult };
    const answer = await this.#coil("ADD", pod);
    const { ips } = JSON.parse(answer) as {
      ips: readonly { address: string }[];
    };
    const addresses = ips.map(({ address }) => address.split("/")[0] ?? "");
    return { ...pod, addresses };
  }

  /** Removes the pod's network and its sandbox. */
  async stop(pod: VmPod): Promise<void> {
    await this.#coil("DEL", pod);
    const { prevResult } = pod;
    for (const config of this.#firstOf(pod, pod.node).toReversed()) {
      await this.#call("DEL", { ...config, prevResult }, pod);
    }
    await this.#remove(pod.sandbox.netns);
  }

  #firstOf(pod: PodRef, node: VmNode): readonly PluginConfig[] {
    return this.#options.first?.(pod, node) ?? [];
  }

  /** The CNI project's plugins, and those of Coil's executable. */
  async #call(
    command: Command,
    config: PluginConfig,
    where: { readonly sandbox: Sandbox; readonly node: VmNode },
  ): Promise<string> {
    const isOurs = OWN_PLUGINS.includes(config.type);
    const pluginDir = isOurs ? this.#options.pluginsOf(where.node) : PLUGINS;
    return await call(command, config, { ...where, pluginDir });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const netns of this.#sandboxes) await this.#remove(netns);
  }

  async #coil(
    command: Command,
    pod: Pick<VmPod, "sandbox" | "node" | "prevResult">,
  ): Promise<string> {
    const { socketOf, cniVersion = "1.1.0" } = this.#options;
    const { prevResult } = pod;
    return await this.#call(command, {
      type: "coil",
      socket: socketOf(pod.node),
      ...(prevResult === undefined ? { cniVersion } : { prevResult }),
    }, pod);
  }

  /** Reports addresses and readiness, as a kubelet does. */
  async report(pod: VmPod, state: { readonly ready: boolean }): Promise<void> {
    const { namespace, name, addresses, node } = pod;
    const now = new Date().toISOString().replace(/\.\d+/, "");
    const status = state.ready ? "True" : "False";
    const conditions = ["Ready", "ContainersReady"].map((type) => ({
      type,
      status,
      lastTransitionTime: now,
    }));
    await this.#options.client.patch<V1Pod>(PODS, { namespace, name }, {
      status: {
        phase: "Running",
        conditions,
        podIP: addresses[0],
        podIPs: addresses.map((ip) => ({ ip })),
        hostIP: node.addresses.ipv4,
        startTime: now,
      },
    }, { kind: "merge", subresource: "status" });
  }
}

/** @throws {Error} with the plugin's message when it refuses */
async function call(
  command: Command,
  config: PluginConfig,
  where: {
    readonly sandbox: Sandbox;
    readonly node: VmNode;
    readonly pluginDir: string;
  },
): Promise<string> {
  const { sandbox, node, pluginDir } = where;
  const one = {
    plugin: path.join(pluginDir, config.type),
    config: { cniVersion: "1.0.0", name: "k8s-pod-network", ...config },
    sandbox,
    nodeNetns: node.netns,
  };
  const answer = command === "ADD"
    ? await addPatiently(one)
    : await callPlugin({ ...one, command });
  if (answer.code === 0) return answer.stdout;
  const { namespace, pod } = sandbox;
  throw new Error(
    `Cannot ${command} pod "${namespace}/${pod}" by ${config.type}: ${answer.stdout}${answer.stderr}`,
  );
}
