import { messageOf } from "../../lib/errors/mod.ts";
import type { Log } from "./build.ts";
import { CommandError, run } from "./command.ts";
import { labDir, lockFile } from "./cache.ts";

/** IP versions that a lab serves. */
export type LabFamily = "ipv4" | "ipv6";

/** Addresses of one lab: `172.30.N.0/24` and `fd30:N::/64`, where N is free on this machine. */
export class LabSubnet {
  readonly index: number;
  constructor(index: number) {
    this.index = index;
  }
  /** Address of host number `host` in the lab: 1 is the bridge, 10 + n the node n, 254 the machine itself. */
  address(family: LabFamily, host: number): string {
    if (family === "ipv4") return `172.30.${this.index}.${host}`;
    return this.index === 0 ? `fd30::${host}` : `fd30:${this.index}::${host}`;
  }
  /** The same with the length of the lab's prefix. */
  cidr(family: LabFamily, host: number): string {
    return `${this.address(family, host)}/${family === "ipv4" ? 24 : 64}`;
  }
}

/** Number of the bridge in the lab's prefixes: the API server. */
export const BRIDGE_HOST = 1;
/** Number of the machine that runs the tests. */
export const MACHINE_HOST = 254;
/** Name of the bridge in the control plane's network namespace. */
export const BRIDGE = "br0";

/** What {@link createNetwork} made. */
export interface LabNetwork {
  readonly subnet: LabSubnet;
  readonly netns: string;
}

/**
 * The bridge's own: left alone it has that of one of its ports and another one
 * when the node of that port goes, which neighbours would notice half a minute
 * later.
 */
const BRIDGE_MAC = "02:00:00:00:00:01";

function hostLinkOf(index: number): string {
  return `coil-lab${index}`;
}

/** Makes the control plane's network namespace, its bridge, and a link from here into it. */
export async function createNetwork(
  options: { netns: string; families: readonly LabFamily[] },
): Promise<LabNetwork> {
  const { netns, families } = options;
  using _lock = await lockFile(`${labDir()}/network.lock`);
  const subnet = new LabSubnet(await freeIndex());
  const hostLink = hostLinkOf(subnet.index);
  await run("ip", ["netns", "add", netns]);
  await inNetns(netns, "sysctl", [
    "-qw",
    "net.ipv4.ip_forward=1",
    ...(families.includes("ipv6") ? ["net.ipv6.conf.all.forwarding=1"] : []),
  ]);
  await ipBatch(netns, [
    "link set lo up",
    `link add ${BRIDGE} address ${BRIDGE_MAC} type bridge mcast_snooping 0`,
    ...families.map((f) => addressAdd(subnet.cidr(f, BRIDGE_HOST), BRIDGE)),
    `link set ${BRIDGE} up`,
  ]);
  await run("ip", [
    ...["link", "add", hostLink, "type", "veth"],
    ...["peer", "name", "machine", "netns", netns],
  ]);
  await ipBatch(netns, [`link set machine master ${BRIDGE} up`]);
  await ipBatch(undefined, [
    ...families.map((f) => addressAdd(subnet.cidr(f, MACHINE_HOST), hostLink)),
    `link set ${hostLink} up`,
  ]);
  return { subnet, netns };
}

/** Makes a node's network namespace, with eth0 on the lab's bridge and a default route to it. */
export async function createNodeNetwork(options: {
  netns: string;
  network: LabNetwork;
  number: number;
  families: readonly LabFamily[];
}): Promise<void> {
  const { netns, network, families } = options;
  const { subnet } = network;
  const port = `node${options.number}`;
  await run("ip", ["netns", "add", netns]);
  await ipBatch(netns, [
    "link set lo up",
    `link add eth0 type veth peer name ${port} netns ${network.netns}`,
  ]);
  await ipBatch(network.netns, [`link set ${port} master ${BRIDGE} up`]);
  await ipBatch(netns, [
    ...families.map((f) =>
      addressAdd(subnet.cidr(f, 10 + options.number), "eth0")
    ),
    "link set eth0 up",
    ...families.map((f) =>
      `route add default via ${subnet.address(f, BRIDGE_HOST)}`
    ),
  ]);
}

/** The link of a virtual machine to a lab. */
export interface VmNetwork {
  /** Where {@link link} is, whose frames are the machine's. */
  readonly netns: string;
  readonly link: string;
  /** The machine's own addresses. */
  readonly cidrs: readonly string[];
  readonly gateways: readonly string[];
}

/** Makes a port of the lab's bridge for a virtual machine, which has the addresses of node `number`. */
export async function createVmNetwork(options: {
  network: LabNetwork;
  number: number;
  families: readonly LabFamily[];
}): Promise<VmNetwork> {
  const { network: { netns, subnet }, number, families } = options;
  const link = `vm${number}`;
  await ipBatch(netns, [
    `link add ${link} type veth peer name ${link}-port`,
    // The namespace itself must not answer there.
    `link set ${link} arp off addrgenmode none up`,
    `link set ${link}-port master ${BRIDGE} up`,
  ]);
  return {
    netns,
    link,
    cidrs: families.map((family) => subnet.cidr(family, 10 + number)),
    gateways: families.map((family) => subnet.address(family, BRIDGE_HOST)),
  };
}

/** Runs a command in a network namespace and returns its stdout. */
export async function inNetns(
  netns: string,
  command: string,
  args: readonly string[],
): Promise<string> {
  return await run("nsenter", [`--net=/run/netns/${netns}`, command, ...args]);
}

/** Removes a network namespace and first its links: a lingering socket could hold them for minutes otherwise. */
export async function deleteNetns(netns: string): Promise<void> {
  if (!(await listNetns()).includes(netns)) return;
  for (const link of ["eth0", "machine", BRIDGE]) {
    await deleteLink(netns, link);
  }
  await ignoreMissing(run("ip", ["netns", "delete", netns]));
}

/** Removes a link, and its peer if it has one; none is no error. */
export async function deleteLink(netns: string, link: string): Promise<void> {
  await ignoreMissing(run("ip", ["-n", netns, "link", "delete", link]));
}

/** Names of the network namespaces that iproute2 knows. */
export async function listNetns(): Promise<string[]> {
  const names: string[] = [];
  try {
    for await (const entry of Deno.readDir("/run/netns")) {
      names.push(entry.name);
    }
  } catch (err) {
    if (!(err instanceof Deno.errors.NotFound)) throw err;
  }
  return names;
}

/** Logs why removing failed, for clean-up that must go on. */
export async function bestEffort(
  what: string,
  work: () => Promise<void>,
  log: Log,
): Promise<void> {
  try {
    await work();
  } catch (err) {
    log(`Cannot ${what}: ${messageOf(err)}`);
  }
}

function addressAdd(cidr: string, link: string): string {
  return `address add ${cidr} dev ${link}${cidr.includes(":") ? " nodad" : ""}`;
}

/** Runs the lines by one `ip -batch`, in the machine's namespace or the named one. */
export async function ipBatch(
  netns: string | undefined,
  lines: readonly string[],
): Promise<void> {
  const where = netns === undefined ? [] : ["-n", netns];
  await run("ip", [...where, "-batch", "-"], { stdin: lines.join("\n") });
}

async function ignoreMissing(command: Promise<unknown>): Promise<void> {
  try {
    await command;
  } catch (err) {
    if (!(err instanceof CommandError && saysMissing(err.stderr))) throw err;
  }
}

/**
 * Whether `ip` says that the link or the namespace is not there.
 *
 * The kernel's "No such device" comes when the link went between ip's look and its request: that of a node goes by itself, a little after its peer's namespace.
 */
export function saysMissing(stderr: string): boolean {
  return /Cannot find device|No such (device|file or directory)/.test(stderr);
}

/**
 * The lowest N for which no route of this machine touches `172.30.N.0/24`, and
 * which no lab has: one of IPv6 alone has no such route.
 */
async function freeIndex(): Promise<number> {
  const links = new Set<string>();
  for await (const { name } of Deno.readDir("/sys/class/net")) links.add(name);
  const text = await run("ip", ["-4", "route", "show", "table", "all"]);
  const taken = text.split("\n").flatMap((line) => {
    const match = /^(?:\w+ )?(\d+)\.(\d+)\.(\d+)\.\d+(?:\/(\d+))?/.exec(line);
    if (match === null) return [];
    const octets = match.slice(1, 4).map(Number);
    const [a = 0, b = 0, c = 0] = octets;
    return [{ bits: a << 16 | b << 8 | c, length: Number(match[4] ?? 32) }];
  });
  for (let index = 0; index < 256; index++) {
    if (links.has(hostLinkOf(index))) continue;
    const bits = 172 << 16 | 30 << 8 | index;
    const free = taken.every((route) => {
      // Shorter ones are default routes in disguise, as of a VPN.
      if (route.length < 8) return true;
      const common = Math.min(route.length, 24);
      return bits >>> (24 - common) !== route.bits >>> (24 - common);
    });
    if (free) return index;
  }
  throw new Error("Cannot find a free 172.30.N.0/24: all are routed already");
}
