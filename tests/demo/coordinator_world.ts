// A physical network beside the demo's cluster: a switch that is a gateway too,
// and pods that are on it by macvlan, whose parent is a link of the node.
import * as path from "node:path";
import type { CoilCluster } from "../lab/coil.ts";
import { run } from "../lab/command.ts";
import type { LabNode } from "../lab/mod.ts";
import { callPlugin, type Sandbox } from "../lab/runtime.ts";

/** Network n is 10.N.0.0/24 and begins at the gateway. */
export const NETWORKS = [6, 7, 8] as const;
export type NetworkNumber = typeof NETWORKS[number];

/** An interface of a pod. */
export interface Nic {
  readonly name: string;
  readonly network: NetworkNumber;
  readonly number: number;
}

export function addressOf({ network, number }: Omit<Nic, "name">): string {
  return `10.${network}.0.${number}`;
}

export function gatewayOf({ network }: Pick<Nic, "network">): string {
  return addressOf({ network, number: 1 });
}

/** What a plugin said. */
export interface Said {
  readonly code: number;
  readonly text: string;
}

/** The switch, the node on it, and its pods. */
export class PhysicalWorld implements AsyncDisposable {
  readonly cluster: CoilCluster;
  readonly node: LabNode;
  readonly switchNetns: string;

  private constructor(cluster: CoilCluster, node: LabNode) {
    this.cluster = cluster;
    this.node = node;
    this.switchNetns = `coil-${cluster.plane.name}-pod-switch`;
  }

  static async start(cluster: CoilCluster): Promise<PhysicalWorld> {
    const [node] = cluster.nodes;
    if (node === undefined) throw new Error("Cannot go on without a node");
    const world = new PhysicalWorld(cluster, node);
    await world.#wire();
    await Deno.symlink(
      "coil",
      path.join(cluster.pluginDir(node), "coordinator"),
    );
    return world;
  }

  async #wire(): Promise<void> {
    const { node, switchNetns } = this;
    await run("ip", ["netns", "add", switchNetns]);
    await this.onSwitch("sysctl", "-qw", "net.ipv4.ip_forward=1");
    for (const network of NETWORKS) {
      const link = `net${network}`;
      await node.run(
        ...["ip", "link", "add", link, "type", "veth"] as const,
        ...["peer", "name", link, "netns", switchNetns],
      );
      await node.run("ip", "link", "set", link, "up");
      await this.onSwitch("ip", "link", "set", link, "up");
      await this.setGateway(network, "add");
    }
    const own = addressOf({ network: 6, number: 10 });
    await node.run("ip", "address", "add", `${own}/24`, "dev", "net6");
  }

  /** Gives the switch a network's gateway, or takes it away. */
  async setGateway(
    network: NetworkNumber,
    verb: "add" | "delete",
  ): Promise<void> {
    const address = `${gatewayOf({ network })}/24`;
    await this.onSwitch("ip", "address", verb, address, "dev", `net${network}`);
  }

  /** Runs a command on the switch. */
  async onSwitch(command: string, ...args: string[]): Promise<string> {
    const net = `--net=/run/netns/${this.switchNetns}`;
    return await run("nsenter", [net, command, ...args]);
  }

  /** A ClusterIP as kube-proxy has it: on the node, for what comes by it. */
  async serve(
    clusterIp: string,
    to: { readonly address: string; readonly port: number },
  ): Promise<void> {
    await this.node.run(
      "nft",
      "table ip services { " +
        "chain pre { type nat hook prerouting priority -100; " +
        `ip daddr ${clusterIp} tcp dport 443 dnat to ${to.address}:${to.port}; }; ` +
        "chain post { type nat hook postrouting priority 100; " +
        'oifname "eth0" masquerade; }; }',
    );
    await this.node.run("sysctl", "-qw", "net.ipv4.ip_forward=1");
  }

  /** A pod without a network. */
  async pod(name: string): Promise<Sandbox> {
    return await this.cluster.createSandbox(this.node, {
      namespace: "default",
      name,
    });
  }

  /** As the plugin macvlan leaves an interface: with an address and a default route. */
  async addNic({ netns }: Sandbox, nic: Nic): Promise<void> {
    const { node } = this;
    const parent = `net${nic.network}`;
    const link = `tmp${nic.network}x${nic.number}`;
    await node.run(
      ...["ip", "link", "add", "link", parent, "name", link] as const,
      ...["type", "macvlan", "mode", "bridge"],
    );
    await node.run(
      ...["ip", "link", "set", link, "netns", netns] as const,
      ...["name", nic.name],
    );
    const ip = (...args: string[]) => run("ip", ["-n", netns, ...args]);
    await ip("link", "set", nic.name, "up");
    await ip("address", "add", `${addressOf(nic)}/24`, "dev", nic.name);
    await ip(
      ...["route", "append", "default", "via", gatewayOf(nic)],
      ...["dev", nic.name],
    );
  }

  /** Calls the coordinator as a runtime does, after macvlan. */
  async coordinator(
    command: "ADD" | "CHECK" | "DEL",
    sandbox: Sandbox,
    { nic = "eth0", config = {} }: {
      readonly nic?: string;
      readonly config?: Readonly<Record<string, unknown>>;
    } = {},
  ): Promise<Said> {
    const { cluster, node } = this;
    const { code, stdout } = await callPlugin({
      plugin: path.join(cluster.pluginDir(node), "coordinator"),
      command,
      nodeNetns: node.netns,
      sandbox: { ...sandbox, ifname: nic },
      config: {
        cniVersion: "1.1.0",
        name: "physical",
        type: "coordinator",
        // In whose directory the whole program finds the defaults.
        socket: cluster.socketOf(node),
        ...config,
        prevResult: { cniVersion: "1.1.0" },
      },
    });
    const { msg = "" } = code === 0 ? {} : JSON.parse(stdout);
    return { code, text: msg };
  }

  /** Whether a command in a pod succeeds, and what it printed. */
  async tryInPod(
    { netns }: Sandbox,
    command: string,
    ...args: string[]
  ): Promise<Said> {
    const { code, stdout } = await new Deno.Command("nsenter", {
      args: [`--net=/run/netns/${netns}`, command, ...args],
      stderr: "null",
    }).output();
    return { code, text: new TextDecoder().decode(stdout) };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await run("ip", ["netns", "delete", this.switchNetns]);
  }
}
