/**
 * Nodes whose pods have addresses of their VPC, and the plugin as a runtime
 * executes it.
 *
 * @module
 */
import { placePlugin } from "../lab/plugin_file.ts";
import type { Cloud, CloudConfig } from "../lab/cloud/mod.ts";
import { VpcSite } from "../lab/cloud/site.ts";
import {
  cloudConfig,
  CLUSTER,
  policyOf,
  withPolicy,
} from "../lab/cloud/testing.ts";
import { type LabNode, run } from "../lab/mod.ts";
import { addPatiently, callPlugin } from "../lab/runtime.ts";
import {
  type AddResult,
  type Coild,
  CoildLab,
  type CoildLabOptions,
  type Sandbox,
} from "./coild_lab.ts";
import { DEPLOY } from "./deploy_render.ts";

/** Flags of coild by which a node has as few addresses as its pods need. */
export const BARE: readonly string[] = [
  "--vpc-mode=address",
  "--warm-ips=1",
  "--min-ips=1",
];

/** How a call of the plugin ended. */
export interface PluginAnswer {
  readonly code: number;
  /** What it printed: a result, or an error. */
  readonly output: string;
}

/** Nodes that are instances of a cloud, with coild's rights in the account. */
export class VpcLab implements AsyncDisposable {
  readonly lab: CoildLab;
  readonly site: VpcSite;
  readonly #stack: AsyncDisposableStack;
  readonly #plugins = new Map<string, Promise<string>>();

  private constructor(
    stack: AsyncDisposableStack,
    parts: { readonly lab: CoildLab; readonly site: VpcSite },
  ) {
    this.#stack = stack;
    this.lab = parts.lab;
    this.site = parts.site;
  }

  /** Starts all but coild: a node for each instance. */
  static async start(
    name: string,
    changes: Partial<CloudConfig> = {},
    options: Pick<CoildLabOptions, "audit"> = {},
  ): Promise<VpcLab> {
    await using stack = new AsyncDisposableStack();
    const policy = await policyOf("coild");
    const config = withPolicy(cloudConfig(changes), policy);
    const nodes = config.instances.length;
    const lab = stack.use(await CoildLab.start({ name, nodes, ...options }));
    for (const part of ["vpc", "policies"]) {
      await lab.plane.kubectl("apply", "-k", `${DEPLOY}${part}`);
    }
    const site = stack.use(await VpcSite.join(lab.nodes, { config, name }));
    return new VpcLab(stack.move(), { lab, site });
  }

  get cloud(): Cloud {
    return this.site.cloud;
  }

  /** Starts coild; it may not be ready yet. */
  async spawn(
    args: readonly string[] = [],
    node: LabNode = this.lab.node(),
  ): Promise<Coild> {
    return await this.lab.spawnCoild(node, [
      "--addresses=vpc",
      `--cluster-name=${CLUSTER}`,
      ...args,
    ], {
      env: this.site.envOf(node),
    });
  }

  /** The same, when it serves ADD. */
  async start(args: readonly string[] = [], node?: LabNode): Promise<Coild> {
    const coild = await this.spawn(args, node);
    await coild.ready();
    return coild;
  }

  /** Executes the plugin as a runtime does, once. */
  async plugin(
    coild: Coild,
    command: "ADD" | "DEL" | "CHECK",
    pod: Sandbox,
  ): Promise<PluginAnswer> {
    const call = await this.#callOf(coild, pod);
    const { code, stdout, stderr } = await callPlugin({ ...call, command });
    return { code, output: stdout + stderr };
  }

  async #callOf(coild: Coild, pod: Sandbox) {
    const directory = `${this.lab.plane.runDir}/plugins-${coild.node.name}`;
    const placed = this.#plugins.get(directory) ??
      placePlugin(directory, {
        executable: "/bin/false",
        socket: coild.socketPath,
      });
    this.#plugins.set(directory, placed);
    return {
      plugin: await placed,
      config: {
        cniVersion: "1.1.0",
        name: "k8s-pod-network",
        type: "coil",
        socket: coild.socketPath,
      },
      sandbox: { ...pod, pod: pod.name },
      nodeNetns: coild.node.netns,
    };
  }

  /** The addresses of a pod that is added by the plugin, without lengths; tried again when there is none yet, as a kubelet does. */
  async add(coild: Coild, pod: Sandbox): Promise<string[]> {
    const call = await this.#callOf(coild, pod);
    const { code, stdout, stderr } = await addPatiently(call);
    if (code !== 0) {
      throw new Error(`Cannot add ${pod.name}: ${stdout}${stderr}`);
    }
    const { ips } = JSON.parse(stdout) as AddResult;
    return ips.map(({ address }) => address.replace(/\/.*/, ""));
  }

  /** Deletes a pod by the plugin, and then its object, as a kubelet does. */
  async remove(coild: Coild, pod: Sandbox): Promise<void> {
    const { code, output } = await this.plugin(coild, "DEL", pod);
    if (code !== 0) throw new Error(`Cannot delete ${pod.name}: ${output}`);
    await this.lab.deletePod(pod);
  }

  /** Whether the pod reaches an address. */
  async pings({ netns }: Sandbox, address: string): Promise<boolean> {
    const ping = ["ping", "-n", "-q", "-i", "0.2", "-c", "1", "-w", "20"];
    return await run("nsenter", [
      `--net=/run/netns/${netns}`,
      ...ping,
      address,
    ]).then(() => true, () => false);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#stack.disposeAsync();
  }
}
