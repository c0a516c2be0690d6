import { Mutex } from "../../../lib/async/mod.ts";
import { writeSysctl } from "../../../lib/linux/mod.ts";
import { run } from "../command.ts";
import type { FabricConfig } from "./config.ts";
import type { Enis } from "./eni.ts";
import {
  checkCommands,
  dhcpCommands,
  hostCommands,
  hostOwnCommands,
  planPorts,
  type Port,
  portCommands,
  portRoutes,
} from "./fabric_plan.ts";

/** As an instance knows the metadata service, and where EC2 is for it. */
export const IMDS_ADDRESS = "169.254.169.254";
const DEFAULT_HOP_LIMIT = 2;

/** Of links that come later, too. */
const SYSCTLS: Readonly<Record<string, number>> = {
  "ipv4/ip_forward": 1,
  "ipv4/conf/all/rp_filter": 0,
  "ipv4/conf/default/rp_filter": 0,
  "ipv4/conf/all/send_redirects": 0,
  "ipv4/conf/default/send_redirects": 0,
  // The VPC answers for all that it has a route to.
  "ipv4/conf/default/proxy_arp": 1,
  "ipv6/conf/all/forwarding": 1,
  "ipv6/conf/default/accept_dad": 0,
};

/** The VPC's network: the namespace of this process, into which nodes are plugged by their ENIs. */
export class Fabric {
  readonly #config: FabricConfig;
  /** Guards the ports and what the kernel has of them. */
  readonly #mutex = new Mutex();
  #ports: ReadonlyMap<string, Port> = new Map();

  private constructor(config: FabricConfig) {
    this.#config = config;
  }

  /** Prepares this process' network namespace, which must be empty. */
  static async open(config: FabricConfig): Promise<Fabric> {
    for (const [path, value] of Object.entries(SYSCTLS)) {
      writeSysctl(`net/${path}`, `${value}`);
    }
    await ipBatch([
      "link set lo up",
      `address add ${IMDS_ADDRESS}/32 dev lo`,
      `address add ${config.ec2Address}/32 dev lo`,
    ]);
    for (const [i, host] of config.hosts.entries()) {
      await ipBatch(hostCommands(hostLink(i), host));
      await ipBatch(hostOwnCommands(host), host.netns);
    }
    return new Fabric(config);
  }

  /** Plugs ENIs in and out, and checks what they send. Doing it twice is harmless. */
  async apply(enis: Enis): Promise<void> {
    using _lock = await this.#mutex.lock();
    const before = this.#ports;
    const planned = planPorts(enis, this.#config.nodes);
    const ports = new Map(planned.map((port) => [port.name, port]));
    const gone = [...before.keys()].filter((name) => !ports.has(name));
    await ipBatch(gone.map((name) => `link delete ${name}`));
    for (const port of planned) {
      await this.#applyPort(port, before.get(port.name));
    }
    await run("nft", ["-f", "-"], {
      stdin: checkCommands({
        ports: planned,
        gone,
        outside: this.#outside(),
        imdsHopLimit: this.#config.imdsHopLimit ?? DEFAULT_HOP_LIMIT,
      }),
    });
    this.#ports = ports;
  }

  async #applyPort(port: Port, before: Port | undefined): Promise<void> {
    if (before === undefined) {
      await ipBatch(portCommands(port));
      if (port.deviceIndex === 0) await ipBatch(dhcpCommands(port), port.netns);
    }
    const wanted = new Set(portRoutes(port));
    const had = new Set(before === undefined ? [] : portRoutes(before));
    await ipBatch([
      ...[...had.difference(wanted)].map((it) => `route delete ${it}`),
      ...[...wanted.difference(had)].map((it) => `route replace ${it}`),
    ]);
  }

  /** Waits until the network has all changes so far. */
  async settled(): Promise<void> {
    using _lock = await this.#mutex.lock();
  }

  /** Packets that were dropped, by ENI; those of `not_public` went out of the VPC without a public address. */
  async drops(): Promise<Record<string, number>> {
    using _lock = await this.#mutex.lock();
    const text = await run("nft", [
      ...["-j", "list", "counters", "table", "inet", "fabric"],
    ]);
    const { nftables } = JSON.parse(text) as NftCounters;
    return Object.fromEntries(nftables.flatMap(({ counter }) => {
      if (counter === undefined) return [];
      const port = this.#ports.get(counter.name);
      return [[port?.eniId ?? counter.name, counter.packets]];
    }));
  }

  #outside(): string[] {
    return this.#config.hosts.flatMap(({ isOutside }, i) =>
      isOutside === true ? [hostLink(i)] : []
    );
  }
}

/** What `nft -j` prints of counters. */
interface NftCounters {
  readonly nftables: readonly {
    readonly counter?: { readonly name: string; readonly packets: number };
  }[];
}

function hostLink(number: number): string {
  return `host${number}`;
}

async function ipBatch(
  commands: readonly string[],
  netns?: string,
): Promise<void> {
  if (commands.length === 0) return;
  const where = netns === undefined ? [] : ["-n", netns];
  await run("ip", [...where, "-batch", "-"], { stdin: commands.join("\n") });
}
