// Networks beside the cluster's: a switch, which is their gateway too. Nodes have
// ports on it, without addresses of their own; pods come by macvlan.
import * as path from "node:path";
import type { ClusterNode } from "../lab/cluster/mod.ts";
import { inNetns, type LabFamily, run } from "../lab/mod.ts";
import { deleteLink } from "../lab/network.ts";
import type { Installation } from "./installation.ts";

const NETWORKS = [60, 61, 62] as const;
export type NetworkNumber = typeof NETWORKS[number];

/** Debian's directory of network plugins. */
const PLUGINS = "/usr/lib/cni";

/** A network of the switch. */
export function networkOf(
  number: NetworkNumber,
): Readonly<Record<LabFamily, string>> {
  return { ipv4: `10.${number}.0.0/24`, ipv6: `fd02:${number}::/64` };
}

/** The switch's own address there. */
export function gatewayOf(number: NetworkNumber, family: LabFamily): string {
  return family === "ipv4" ? `10.${number}.0.1` : `fd02:${number}::1`;
}

/** The configuration of a pod's interface on one of them, for Debian's plugins. */
export function macvlanOn(number: NetworkNumber): Record<string, unknown> {
  const { ipv4, ipv6 } = networkOf(number);
  return {
    type: "macvlan",
    master: portOf(number),
    mode: "bridge",
    ipam: {
      type: "host-local",
      ranges: [
        [{ subnet: ipv4, gateway: gatewayOf(number, "ipv4") }],
        [{
          subnet: ipv6,
          rangeStart: `fd02:${number}::1000`,
          gateway: gatewayOf(number, "ipv6"),
        }],
      ],
      routes: [{ dst: "0.0.0.0/0" }, { dst: "::/0" }],
    },
  };
}

function portOf(number: NetworkNumber): string {
  return `phys${number}`;
}

/** A running switch, on which node1 is. The other nodes know by which node its networks' pods are reached. */
export class PhysicalSwitch implements AsyncDisposable {
  readonly #site: Installation;
  readonly #netns: string;

  private constructor(site: Installation) {
    this.#site = site;
    this.#netns = `coil-${site.plane.name}-pod-switch`;
  }

  static async start(site: Installation): Promise<PhysicalSwitch> {
    const made = new PhysicalSwitch(site);
    await run("ip", ["netns", "add", made.#netns]);
    await made.run("sysctl", [
      ...["-qw", "net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1"],
    ]);
    await made.connect();
    await made.#routeFromOthers();
    const plugins = `${made.node.directory}/cni-bin`;
    await Deno.copyFile(
      path.join(PLUGINS, "macvlan"),
      path.join(plugins, "macvlan"),
    );
    return made;
  }

  get node(): ClusterNode {
    return this.#site.node(1);
  }

  /** Gives the node its ports, as after each of its starts. */
  async connect(): Promise<void> {
    const { netns } = this.node;
    for (const number of NETWORKS) {
      const port = portOf(number);
      // The former one goes with the node's former network namespace, which may take a while.
      await deleteLink(this.#netns, port);
      await run("ip", [
        ...["-n", netns, "link", "add", port, "type", "veth"],
        ...["peer", "name", port, "netns", this.#netns],
      ]);
      await run("ip", ["-n", netns, "link", "set", port, "up"]);
      await this.run("ip", ["link", "set", port, "up"]);
      for (const family of ["ipv4", "ipv6"] as const) {
        const [, length] = networkOf(number)[family].split("/");
        await this.run("ip", [
          ...["address", "add", `${gatewayOf(number, family)}/${length}`],
          ...["dev", port, ...family === "ipv6" ? ["nodad"] : []],
        ]);
      }
    }
  }

  /** What a pod of another node answers comes back by the node whose Service proxy has seen the question. */
  async #routeFromOthers(): Promise<void> {
    for (const { netns } of this.#site.nodes.slice(1)) {
      for (const network of NETWORKS.map(networkOf)) {
        for (const [i, prefix] of [network.ipv4, network.ipv6].entries()) {
          const via = this.node.addresses[i] ?? "";
          await run("ip", ["-n", netns, "route", "add", prefix, "via", via]);
        }
      }
    }
  }

  /** Has the switch answer for an address as another machine of the network would, until it is disposed of. */
  async own(
    number: NetworkNumber,
    address: string,
  ): Promise<AsyncDisposable> {
    const change = (verb: string) =>
      this.run("ip", [
        ...["address", verb, `${address}/32`, "dev", portOf(number)],
      ]);
    await change("add");
    return {
      async [Symbol.asyncDispose]() {
        await change("delete");
      },
    };
  }

  /** Runs a command on the switch. */
  async run(command: string, args: readonly string[]): Promise<string> {
    return await inNetns(this.#netns, command, args);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await run("ip", ["netns", "delete", this.#netns]);
  }
}
