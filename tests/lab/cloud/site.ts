import assert from "node:assert/strict";
import { itemsAt, parseXml } from "../../../lib/aws/base/xml.ts";
import { networkInterfaceOf } from "../../../lib/aws/ec2/answers.ts";
import type { NetworkInterface } from "../../../lib/aws/mod.ts";
import { eventually, type LabNode, run } from "../mod.ts";
import { Cloud } from "./cloud.ts";
import type { CloudConfig } from "./config.ts";
import { byHand, changesOf } from "./testing.ts";

/** A peer in the VPC, a host in the Internet, with an address of each family, and one beyond a VPN. */
export const PEER = "10.0.9.10";
export const PEER6 = "fd10:0:0:9::10";
export const OUTSIDE = "198.51.100.10";
export const OUTSIDE6 = "2001:db8::10";
export const ON_PREMISES = "192.168.7.10";

/** The network namespaces of these hosts. */
export interface VpcHosts {
  readonly peer: string;
  readonly outside: string;
  readonly onPremises: string;
}

/** A VPC whose instances are nodes of a lab: a cloud with its fabric, a peer in the VPC, and hosts outside. */
export class VpcSite implements AsyncDisposable {
  readonly cloud: Cloud;
  readonly hosts: VpcHosts;
  readonly #stack: AsyncDisposableStack;
  /** By the node's name. */
  readonly #instances: ReadonlyMap<string, string>;

  private constructor(
    stack: AsyncDisposableStack,
    parts: {
      readonly cloud: Cloud;
      readonly hosts: VpcHosts;
      readonly instances: ReadonlyMap<string, string>;
    },
  ) {
    this.#stack = stack;
    this.cloud = parts.cloud;
    this.hosts = parts.hosts;
    this.#instances = parts.instances;
  }

  /** Makes nodes the instances of a cloud, in their order. */
  static async join(
    nodes: readonly LabNode[],
    { config, name }: { readonly config: CloudConfig; readonly name: string },
  ): Promise<VpcSite> {
    await using stack = new AsyncDisposableStack();
    const make = async (suffix: string) => {
      const netns = `coil-${name}-vpc-${suffix}`;
      await run("ip", ["netns", "add", netns]);
      stack.defer(async () => void await run("ip", ["netns", "delete", netns]));
      await run("ip", ["-n", netns, "link", "set", "lo", "up"]);
      return netns;
    };
    for (const { netns } of nodes) await freeEth0(netns);
    const fabric = await make("fabric");
    const hosts: VpcHosts = {
      peer: await make("peer"),
      outside: await make("outside"),
      onPremises: await make("premises"),
    };
    const pairs = nodes.map((node, i) =>
      [node, config.instances[i]?.id ?? ""] as const
    );
    const cloud = stack.use(
      await Cloud.start({
        ...config,
        fabric: {
          nodes: Object.fromEntries(
            pairs.map(([{ netns }, id]) => [id, netns]),
          ),
          hosts: [
            { netns: hosts.peer, addresses: [PEER, PEER6] },
            { netns: hosts.onPremises, addresses: [ON_PREMISES] },
            {
              netns: hosts.outside,
              addresses: [OUTSIDE, OUTSIDE6],
              isOutside: true,
            },
          ],
          ec2Address: "198.51.100.1",
        },
      }, fabric),
    );
    const instances = new Map(pairs.map(([{ name }, id]) => [name, id]));
    return new VpcSite(stack.move(), { cloud, hosts, instances });
  }

  /** The instance that a node is. */
  instanceOf({ name }: LabNode): string {
    return this.#instances.get(name) ?? "";
  }

  /** Where coild of a node finds EC2 and the metadata service. */
  envOf(node: LabNode): Record<string, string> {
    const { ec2, imds } = this.cloud.endpoints;
    return {
      AWS_ENDPOINT_URL_EC2: ec2,
      AWS_EC2_METADATA_SERVICE_ENDPOINT: imds[this.instanceOf(node)] ?? "",
    };
  }

  /** ENIs that EC2 has, those of a node only, lowest device first. */
  async enis(node?: LabNode): Promise<NetworkInterface[]> {
    const answer = await byHand(this.cloud, "DescribeNetworkInterfaces");
    const deviceOf = ({ attachment }: NetworkInterface) =>
      attachment?.deviceIndex ?? Infinity;
    return itemsAt(parseXml(answer.xml), "networkInterfaceSet").map(
      networkInterfaceOf,
    )
      .filter(({ attachment }) =>
        node === undefined ||
        attachment?.instanceId === this.instanceOf(node)
      )
      .sort((a, b) => deviceOf(a) - deviceOf(b));
  }

  /** Addresses and prefixes of a node's ENIs, lowest device first. */
  async layout(node: LabNode): Promise<number[]> {
    return (await this.enis(node)).map(({ secondaryAddresses, ipv4Prefixes }) =>
      secondaryAddresses.length + ipv4Prefixes.length
    );
  }

  /** Waits until a node's ENIs have so many addresses and prefixes. */
  async expectLayout(
    node: LabNode,
    counts: readonly number[],
  ): Promise<void> {
    const wanted = String(counts);
    let found = "";
    await eventually(`ENIs of ${node.name} with ${wanted}`, async () => {
      found = String(await this.layout(node));
      return found === wanted;
    }, { intervalMs: 200 }).catch((cause) => {
      throw new Error(`${cause.message}: they have ${found}`, { cause });
    });
  }

  /** Fails when the fabric has dropped a packet, by its source or for want of a public one. */
  async assertNoDrops(): Promise<void> {
    const drops = Object.entries(await this.cloud.ask.drops());
    assert.ok(drops.length > 0);
    assert.deepEqual(drops.filter(([, count]) => count > 0), []);
  }

  /** Names of EC2's calls so far, with how often; reads left out. */
  async changes(): Promise<Record<string, number>> {
    return await changesOf(this.cloud);
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

/** The primary ENI is to be eth0, with the default route: the lab's own link gets another name. */
async function freeEth0(netns: string): Promise<void> {
  await run("ip", ["-n", netns, "link", "set", "eth0", "down"]);
  await run("ip", ["-n", netns, "link", "set", "eth0", "name", "lab0"]);
  await run("ip", ["-n", netns, "link", "set", "lab0", "up"]);
}
