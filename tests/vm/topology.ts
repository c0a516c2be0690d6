// The world of the egress tests, in one virtual machine: two nodes, an outside
// network, and the machine's own namespace as the router between them, which
// also leads to the API server.
import { inNetns, run } from "../lab/mod.ts";

/** IP versions, in the order of a dual stack's addresses. */
export type VmFamily = "ipv4" | "ipv6";
export const VM_FAMILIES: readonly VmFamily[] = ["ipv4", "ipv6"];

/** Pools of addresses; those of one family have the same name as a pool of both, with the family behind. */
export const POOLS = {
  clients: { ipv4: "10.64.0.0/17", ipv6: "fd64::/113" },
  "clients-ipv4": { ipv4: "10.64.128.0/17" },
  "clients-ipv6": { ipv6: "fd64::8000/113" },
  gateways: { ipv4: "10.65.0.0/17", ipv6: "fd65::/113" },
  "gateways-ipv4": { ipv4: "10.65.128.0/17" },
} as const;

/** What all gateways' addresses are in: gateways and clients are told apart by it. */
const GATEWAY_NETWORKS = { ipv4: "10.65.0.0/16", ipv6: "fd65::/112" } as const;

/** Addresses of the servers outside: two networks, so that an Egress may have the one and not the other. */
export const OUTSIDE = {
  ipv4: { near: "203.0.113.9", far: "198.51.100.9" },
  ipv6: { near: "2001:db8:9::9", far: "2001:db8:a::9" },
} as const;
/** Networks of {@link OUTSIDE}, as destinations of an Egress. */
export const OUTSIDE_NETWORKS = {
  ipv4: { near: "203.0.113.0/24", far: "198.51.100.0/24" },
  ipv6: { near: "2001:db8:9::/64", far: "2001:db8:a::/64" },
} as const;

const NODE_NETWORKS = { ipv4: "172.31.0.0/24", ipv6: "fd31::/64" } as const;

const BRIDGE = "fabric";
const OUTSIDE_NETNS = "outside";
const OUTSIDE_PORT = "outside0";
const ROUTER = { ipv4: "203.0.113.1", ipv6: "2001:db8:9::1" } as const;

/** A node: a network namespace on the router's bridge. */
export interface VmNode {
  /** Name of the Node and of the namespace. */
  readonly name: string;
  readonly netns: string;
  readonly addresses: Readonly<Record<VmFamily, string>>;
}

/** Two nodes, an outside network, and the router. Disposing of it removes them. */
export interface Topology extends AsyncDisposable {
  readonly nodes: readonly [VmNode, VmNode];
  /** Name of the outside network's namespace. */
  readonly outside: string;
  /** Routes a prefix to a node, as a routing daemon does. */
  route(prefix: string, node: VmNode): Promise<void>;
}

/** Makes the namespaces and links. */
export async function createTopology(): Promise<Topology> {
  await using undo = new AsyncDisposableStack();
  undo.defer(removeRouter);
  await makeRouter();
  const nodes = [nodeOf(1), nodeOf(2)] as const;
  for (const node of nodes) {
    undo.defer(() => deleteNetns(node.netns, `${node.netns}p`));
    await makeNode(node);
  }
  undo.defer(() => deleteNetns(OUTSIDE_NETNS, OUTSIDE_PORT));
  await makeOutside();
  const disposal = undo.move();
  return {
    nodes: [nodes[0], nodes[1]],
    outside: OUTSIDE_NETNS,
    async route(prefix, node): Promise<void> {
      const family = prefix.includes(":") ? "ipv6" : "ipv4";
      const via = node.addresses[family];
      await run("ip", ["route", "replace", prefix, "via", via]);
    },
    [Symbol.asyncDispose]: () => disposal.disposeAsync(),
  };
}

function nodeOf(number: number): VmNode {
  const name = `node${number}`;
  return {
    name,
    netns: name,
    addresses: { ipv4: `172.31.0.1${number}`, ipv6: `fd31::1${number}` },
  };
}

async function makeRouter(): Promise<void> {
  await run("sysctl", [
    "-qw",
    ...["net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1"],
  ]);
  await batch([
    `link add ${BRIDGE} type bridge mcast_snooping 0`,
    `address add 172.31.0.1/24 dev ${BRIDGE}`,
    `address add fd31::1/64 dev ${BRIDGE} nodad`,
    `link set ${BRIDGE} up`,
  ]);
  // The API server knows nobody of this world.
  await run("nft", ["-f", "-"], {
    stdin: `table ip uplink {
  chain postrouting {
    type nat hook postrouting priority srcnat
    oifname "uplink" masquerade
  }
}`,
  });
}

async function removeRouter(): Promise<void> {
  await run("ip", ["link", "delete", BRIDGE]);
  await run("nft", ["delete", "table", "ip", "uplink"]);
}

async function makeNode(node: VmNode): Promise<void> {
  const { netns, addresses } = node;
  await run("ip", ["netns", "add", netns]);
  await batch([
    `link add ${netns}p type veth peer name eth0 netns ${netns}`,
    `link set ${netns}p master ${BRIDGE} up`,
  ]);
  await batch([
    "link set lo up",
    `address add ${addresses.ipv4}/24 dev eth0`,
    `address add ${addresses.ipv6}/64 dev eth0 nodad`,
    "link set eth0 up",
    "route add default via 172.31.0.1",
    "route add default via fd31::1",
  ], netns);
}

async function makeOutside(): Promise<void> {
  await run("ip", ["netns", "add", OUTSIDE_NETNS]);
  await batch([
    `link add ${OUTSIDE_PORT} type veth peer name eth0 netns ${OUTSIDE_NETNS}`,
    `address add ${ROUTER.ipv4}/24 dev ${OUTSIDE_PORT}`,
    `address add ${ROUTER.ipv6}/64 dev ${OUTSIDE_PORT} nodad`,
    `link set ${OUTSIDE_PORT} up`,
  ]);
  const { ipv4, ipv6 } = OUTSIDE;
  await batch([
    "link set lo up",
    ...[`${ipv4.near}/24`, `${ipv4.far}/32`].map((a) =>
      `address add ${a} dev eth0`
    ),
    ...[`${ipv6.near}/64`, `${ipv6.far}/128`].map((a) =>
      `address add ${a} dev eth0 nodad`
    ),
    "link set eth0 up",
    `route add default via ${ROUTER.ipv4}`,
    `route add default via ${ROUTER.ipv6}`,
  ], OUTSIDE_NETNS);
  await batch([
    `route add ${OUTSIDE_NETWORKS.ipv4.far} via ${ipv4.near}`,
    `route add ${OUTSIDE_NETWORKS.ipv6.far} via ${ipv6.near}`,
  ]);
  await watchSources();
}

/**
 * Counts all packets that reach the outside by their source, before anything of this namespace sees them: what is
 * neither a gateway's nor the router's own is a leak.
 */
async function watchSources(): Promise<void> {
  await inNetns(OUTSIDE_NETNS, "sh", [
    "-c",
    'echo "$1" | nft -f -',
    "sh",
    `table inet seen {
  counter right4 { }
  counter right6 { }
  counter wrong { }
  set wrong4 { type ipv4_addr; flags dynamic; size 64; }
  set wrong6 { type ipv6_addr; flags dynamic; size 64; }
  chain sources {
    type filter hook prerouting priority raw
    iifname != "eth0" return
    ip saddr ${ROUTER.ipv4} return
    ip6 saddr { ${ROUTER.ipv6}, fe80::/10, :: } return
    # Nodes tell a server that a gateway is gone: answers to it go nowhere, or round and round.
    ip saddr ${NODE_NETWORKS.ipv4} icmp type { destination-unreachable, redirect, time-exceeded } return
    ip6 saddr ${NODE_NETWORKS.ipv6} icmpv6 type { destination-unreachable, nd-redirect, time-exceeded } return
    ip saddr ${GATEWAY_NETWORKS.ipv4} counter name right4 return
    ip6 saddr ${GATEWAY_NETWORKS.ipv6} counter name right6 return
    counter name wrong
    meta nfproto ipv4 add @wrong4 { ip saddr }
    meta nfproto ipv6 add @wrong6 { ip6 saddr }
  }
}`,
  ]);
}

/** Packets that came to the outside network. */
export interface SeenSources {
  /** From gateways. */
  readonly right: Readonly<Record<VmFamily, number>>;
  /** From anybody else. */
  readonly wrong: number;
  /** Who anybody else was. */
  readonly wrongSources: readonly string[];
}

/** Reads what {@link createTopology}'s outside network has counted. */
export async function seenSources(): Promise<SeenSources> {
  return seenIn(await watcher("-j", "list", "table", "inet", "seen"));
}

/** Reads it, and forgets what was read, no more: what comes in the meantime is seen the next time. */
export async function takeSources(): Promise<SeenSources> {
  const { wrongSources } = await seenSources();
  for (const source of wrongSources) {
    const set = source.includes(":") ? "wrong6" : "wrong4";
    await watcher("delete", "element", "inet", "seen", set, `{ ${source} }`);
  }
  const counters = await watcher(
    "-j",
    "reset",
    "counters",
    "table",
    "inet",
    "seen",
  );
  return { ...seenIn(counters), wrongSources };
}

function watcher(...command: readonly string[]): Promise<string> {
  return inNetns(OUTSIDE_NETNS, "nft", [...command]);
}

function seenIn(text: string): SeenSources {
  const { nftables } = JSON.parse(text) as {
    nftables: readonly {
      counter?: { name: string; packets: number };
      set?: { name: string; elem?: readonly string[] };
    }[];
  };
  const packets = (name: string) =>
    nftables.find((row) => row.counter?.name === name)?.counter?.packets ?? 0;
  return {
    right: { ipv4: packets("right4"), ipv6: packets("right6") },
    wrong: packets("wrong"),
    wrongSources: nftables.flatMap(({ set }) => set?.elem ?? []),
  };
}

async function batch(lines: readonly string[], netns?: string): Promise<void> {
  const where = netns === undefined ? [] : ["-n", netns];
  await run("ip", [...where, "-batch", "-"], { stdin: lines.join("\n") });
}

/** The link into it first: what is in a deleted namespace goes a little later. */
async function deleteNetns(netns: string, link: string): Promise<void> {
  await run("ip", ["link", "delete", link]);
  await run("ip", ["netns", "delete", netns]);
}
