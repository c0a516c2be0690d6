/**
 * Nodes whose pods have addresses of their VPC: a cloud with its fabric,
 * instances that are also nodes of a control plane, a peer in the VPC and a host
 * in the Internet, and the plugin as a runtime executes it.
 *
 * @module
 */
import { placePlugin } from "../lab/plugin_file.ts";
import { Cloud, type CloudConfig } from "../lab/cloud/mod.ts";
import { cloudConfig } from "../lab/cloud/testing.ts";
import { eventually, type LabNode, run } from "../lab/mod.ts";
import {
  type AddResult,
  type Coild,
  CoildLab,
  type Sandbox,
} from "./coild_lab.ts";

/** A peer in the VPC, and a host in the Internet. */
export const PEER = "10.0.9.10";
export const OUTSIDE = "198.51.100.10";

const RIGHTS = new URL("../../deploy/vpc", import.meta.url).pathname;

/** How a call of the plugin ended. */
export interface PluginAnswer {
  readonly code: number;
  /** What it printed: a result, or an error. */
  readonly output: string;
}

/** Nodes that are instances of a cloud. */
export class VpcLab implements AsyncDisposable {
  readonly lab: CoildLab;
  readonly cloud: Cloud;
  readonly #stack: AsyncDisposableStack;
  /** By the node's name. */
  readonly #instances: ReadonlyMap<string, string>;
  readonly #plugins = new Map<string, string>();

  private constructor(
    stack: AsyncDisposableStack,
    parts: {
      readonly lab: CoildLab;
      readonly cloud: Cloud;
      readonly instances: ReadonlyMap<string, string>;
    },
  ) {
    this.#stack = stack;
    this.lab = parts.lab;
    this.cloud = parts.cloud;
    this.#instances = parts.instances;
  }

  /** Starts all but coild: a node for each instance. */
  static async start(
    name: string,
    changes: Partial<CloudConfig> = {},
  ): Promise<VpcLab> {
    await using stack = new AsyncDisposableStack();
    const config = cloudConfig(changes);
    const ids = config.instances.map(({ id }) => id);
    const lab = stack.use(await CoildLab.start({ name, nodes: ids.length }));
    await lab.plane.kubectl("apply", "-k", RIGHTS);
    for (const { netns } of lab.nodes) {
      // The ENI is to be eth0, with the default route.
      await run("ip", ["-n", netns, "link", "set", "eth0", "down"]);
      await run("ip", ["-n", netns, "link", "set", "eth0", "name", "lab0"]);
      await run("ip", ["-n", netns, "link", "set", "lab0", "up"]);
    }
    const make = async (suffix: string) => {
      const netns = `coil-${name}-${suffix}`;
      await run("ip", ["netns", "add", netns]);
      stack.defer(async () => void await run("ip", ["netns", "delete", netns]));
      await run("ip", ["-n", netns, "link", "set", "lo", "up"]);
      return netns;
    };
    const fabric = await make("fabric");
    const hosts = [
      { netns: await make("peer"), addresses: [PEER] },
      { netns: await make("outside"), addresses: [OUTSIDE], isOutside: true },
    ];
    const cloud = stack.use(
      await Cloud.start({
        ...config,
        fabric: {
          nodes: Object.fromEntries(
            ids.map((id, i) => [id, lab.node(i + 1).netns]),
          ),
          hosts,
          ec2Address: "198.51.100.1",
        },
      }, fabric),
    );
    const instances = new Map(ids.map((id, i) => [lab.node(i + 1).name, id]));
    return new VpcLab(stack.move(), { lab, cloud, instances });
  }

  /** The instance that a node is. */
  instanceOf({ name }: LabNode): string {
    return this.#instances.get(name) ?? "";
  }

  /** Starts coild; it may not be ready yet. */
  async spawn(
    args: readonly string[] = [],
    node: LabNode = this.lab.node(),
  ): Promise<Coild> {
    const { ec2, imds } = this.cloud.endpoints;
    return await this.lab.spawnCoild(node, ["--addresses=vpc", ...args], {
      env: {
        AWS_ENDPOINT_URL_EC2: ec2,
        AWS_EC2_METADATA_SERVICE_ENDPOINT: imds[this.instanceOf(node)] ?? "",
      },
    });
  }

  /** The same, when it serves ADD. */
  async start(args: readonly string[] = [], node?: LabNode): Promise<Coild> {
    const coild = await this.spawn(args, node);
    await coild.ready();
    return coild;
  }

  /** Executes the plugin as a runtime does. */
  async plugin(
    coild: Coild,
    command: "ADD" | "DEL" | "CHECK",
    pod: Sandbox,
  ): Promise<PluginAnswer> {
    const directory = `${this.lab.plane.runDir}/plugins-${coild.node.name}`;
    const program = this.#plugins.get(directory) ??
      await placePlugin(directory, {
        executable: "/bin/false",
        socket: coild.socketPath,
      });
    this.#plugins.set(directory, program);
    const child = new Deno.Command("nsenter", {
      args: [`--net=/run/netns/${coild.node.netns}`, program],
      env: {
        CNI_COMMAND: command,
        CNI_CONTAINERID: pod.containerId,
        CNI_IFNAME: pod.ifname,
        CNI_NETNS: `/run/netns/${pod.netns}`,
        CNI_PATH: directory,
        CNI_ARGS:
          `K8S_POD_NAME=${pod.name};K8S_POD_NAMESPACE=${pod.namespace};K8S_POD_INFRA_CONTAINER_ID=${pod.containerId}`,
      },
      stdin: "piped",
      stdout: "piped",
      stderr: "piped",
    }).spawn();
    const writer = child.stdin.getWriter();
    await writer.write(
      new TextEncoder().encode(
        JSON.stringify({
          cniVersion: "1.1.0",
          name: "k8s-pod-network",
          type: "coil",
          socket: coild.socketPath,
        }),
      ),
    );
    await writer.close();
    const { code, stdout, stderr } = await child.output();
    const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
    return { code, output: text(stdout) + text(stderr) };
  }

  /** The addresses of a pod that is added by the plugin, without lengths. */
  async add(coild: Coild, pod: Sandbox): Promise<string[]> {
    const { code, output } = await this.plugin(coild, "ADD", pod);
    if (code !== 0) throw new Error(`Cannot add ${pod.name}: ${output}`);
    const { ips } = JSON.parse(output) as AddResult;
    return ips.map(({ address }) => address.replace(/\/.*/, ""));
  }

  /** Deletes a pod by the plugin. */
  async remove(coild: Coild, pod: Sandbox): Promise<void> {
    const { code, output } = await this.plugin(coild, "DEL", pod);
    if (code !== 0) throw new Error(`Cannot delete ${pod.name}: ${output}`);
  }

  /** Whether the pod reaches an address. */
  async pings({ netns }: Sandbox, address: string): Promise<boolean> {
    const ping = ["ping", "-n", "-q", "-i", "0.2", "-c", "1", "-w", "3"];
    return await run("nsenter", [
      `--net=/run/netns/${netns}`,
      ...ping,
      address,
    ]).then(() => true, () => false);
  }

  /** Names of EC2's calls so far, with how often; reads left out. */
  async changes(): Promise<Record<string, number>> {
    const counts: Record<string, number> = {};
    for (const { call } of await this.cloud.ask.calls(0)) {
      if (/^(IMDS|Describe)/.test(call)) continue;
      counts[call] = (counts[call] ?? 0) + 1;
    }
    return counts;
  }

  /** Waits until no call of EC2 came for a while, and returns how many there were. */
  async quiet(): Promise<number> {
    let before = -1;
    await eventually("EC2 to be left alone", async () => {
      const { length } = await this.cloud.ask.calls(0);
      const isQuiet = length === before;
      before = length;
      return isQuiet;
    }, { intervalMs: 1_000 });
    return before;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#stack.disposeAsync();
  }
}
