import { Address, type DualStack, type Family } from "../../lib/inet/mod.ts";
import { Netns } from "../../lib/linux/mod.ts";
import { VpcHost } from "../../lib/vpc/mod.ts";
import { PRIMARY, SECONDARY } from "../../lib/vpc/host/testing.ts";
import { listenIn, shell } from "./egress_client_lab.ts";
import { addPod, type TestNode, testNode } from "./podnet_testing.ts";
import { type TempNetns, tempNetns } from "./testing.ts";

/** Addresses of a peer in the VPC, by both of its CIDRs, and of a host beyond it. */
export const PEER = {
  ipv4: "10.0.2.9",
  second: "100.64.0.9",
  ipv6: "2001:db8:2::9",
} as const;
export const OUTSIDE = { ipv4: "203.0.113.9", ipv6: "2001:db8:9::9" } as const;

/** The metadata service; here that host beyond answers for it. */
export const METADATA = {
  ipv4: "169.254.169.254",
  ipv6: "fd00:ec2::254",
} as const;

/** Pods of the primary ENI's block, and of both kinds of blocks of the secondary ENI. */
export const PODS: Readonly<
  Record<"first" | "second" | "single", Required<DualStack<Address>>>
> = {
  first: addresses("10.0.1.98", "2001:db8:1:0:a::98"),
  second: addresses("10.0.1.114", "2001:db8:1:0:b::114"),
  single: addresses("10.0.1.200", "2001:db8:1:0:b::200"),
};

function addresses(ipv4: string, ipv6: string): Required<DualStack<Address>> {
  return { ipv4: Address.parse(ipv4), ipv6: Address.parse(ipv6) };
}

/** A node with two ENIs, in a VPC that drops what does not have a source of the ENI that it comes by. */
export interface VpcLab extends AsyncDisposable {
  readonly node: TestNode;
  readonly host: VpcHost;
  readonly fabric: TempNetns;
  readonly peer: TempNetns;
  readonly outside: TempNetns;
  readonly pods: Readonly<Record<keyof typeof PODS, TempNetns>>;
  /** Plugs the secondary ENI in. */
  plug(): Promise<void>;
  /** Another one on the same host, as after a restart of the daemon. */
  restart(): VpcHost;
  /** The names of the flows that do not work. Those that should not get little time; none should without a function. */
  broken(shouldBe?: (flow: string) => boolean): Promise<string[]>;
  /** How many packets the VPC dropped, by what they were. */
  dropped(): Promise<Readonly<Record<string, number>>>;
}

/** How the node port of either family is reached. */
/** Where {@linkcode nodePortTables} has a pod's port on its node. */
export const NODE_PORT = 30_080;
export const POD_PORT = 8080;

/** Makes it. The secondary ENI is plugged in unless it is to come late. */
export async function vpcLab(
  { late = false }: { readonly late?: boolean } = {},
): Promise<VpcLab> {
  await using stack = new AsyncDisposableStack();
  const node = stack.use(await testNode({ bare: true, rulePriority: 512 }));
  const fabric = stack.use(await tempNetns("fabric"));
  const peer = stack.use(await tempNetns("peer"));
  const outside = stack.use(await tempNetns("outside"));
  const { host: machine } = node;
  // Nodes have been up for long when pods come.
  await shell(
    machine,
    "sysctl -qw net.ipv6.conf.all.accept_dad=0 net.ipv6.conf.default.accept_dad=0",
  );
  await shell(fabric, fabricScript(machine, { peer, outside }));
  await shell(machine, nodeScript());
  const plug = () => shell(fabric, plugScript(machine)).then(() => {});
  if (!late) await plug();
  await node.net.init();
  const pod = async (n: number, name: keyof typeof PODS) =>
    (await addPod(node, n, { addresses: PODS[name] })).pod;
  const pods = {
    first: await pod(1, "first"),
    second: await pod(2, "second"),
    single: await pod(3, "single"),
  };
  const hostNetns = stack.use(Netns.open(machine.path));
  const server = stack.use(Netns.open(pods.second.path));
  // Never accepts: the kernel completes connections.
  stack.use(listenIn(server, "ipv6", { port: POD_PORT }));
  const restart = () => moved.use(VpcHost.open({ hostNetns }));
  const moved = stack.move();
  return {
    node,
    host: restart(),
    fabric,
    peer,
    outside,
    pods,
    plug,
    restart,
    broken: (shouldBe) => brokenOf({ machine, peer, outside, pods }, shouldBe),
    dropped: () => droppedBy(fabric),
    [Symbol.asyncDispose]: () => moved.disposeAsync(),
  };
}

/** The router of the VPC: its permanent neighbours stand for EC2, which asks no pod for its MAC address. */
function fabricScript(
  machine: TempNetns,
  { peer, outside }: {
    readonly peer: TempNetns;
    readonly outside: TempNetns;
  },
): string {
  const inPeer = `ip -n ${peer.name}`;
  const inOutside = `ip -n ${outside.name}`;
  const { ipv4: own, ipv6: own6 } = PRIMARY.addresses;
  return `
    sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1
    ip link add f0 type veth peer name eth0 address ${PRIMARY.mac} netns ${machine.name}
    ip link add topeer type veth peer name eth0 netns ${peer.name}
    ip link add toout type veth peer name eth0 netns ${outside.name}
    ip address add 10.0.1.1/32 dev f0
    for l in f0 topeer toout; do
      ip link set $l addrgenmode none
      ip address add fe80::1/64 dev $l nodad
      ip link set $l up
    done
    ip route add ${own} dev f0
    ip -6 route add ${own6} dev f0
    ip neigh add ${own} lladdr ${PRIMARY.mac} dev f0 nud permanent
    ip neigh add ${own6} lladdr ${PRIMARY.mac} dev f0 nud permanent
    ip route add 10.0.1.96/28 via ${own} dev f0
    ip -6 route add 2001:db8:1:0:a::/80 via ${own6} dev f0
    ${inPeer} address add ${PEER.ipv4}/32 dev eth0
    ${inPeer} address add ${PEER.second}/32 dev eth0
    ${inPeer} address add ${PEER.ipv6}/128 dev eth0 nodad
    ${inPeer} link set eth0 up
    ip route add ${PEER.ipv4} dev topeer
    ip route add ${PEER.second} dev topeer
    ip -6 route add ${PEER.ipv6} dev topeer
    ${inPeer} route add 10.0.1.1 dev eth0
    ${inPeer} route add default via 10.0.1.1
    ${inPeer} -6 route add default via fe80::1 dev eth0
    ${inOutside} address add ${OUTSIDE.ipv4}/32 dev eth0
    ${inOutside} address add ${OUTSIDE.ipv6}/128 dev eth0 nodad
    ${inOutside} address add ${METADATA.ipv4}/32 dev eth0
    ${inOutside} address add ${METADATA.ipv6}/128 dev eth0 nodad
    ${inOutside} link set eth0 up
    ip route add ${OUTSIDE.ipv4} dev toout
    ip -6 route add ${OUTSIDE.ipv6} dev toout
    ip route add ${METADATA.ipv4} dev toout
    ip -6 route add ${METADATA.ipv6} dev toout
    ${inOutside} route add 10.0.1.1 dev eth0
    ${inOutside} route add default via 10.0.1.1
    ${inOutside} -6 route add default via fe80::1 dev eth0
    nft '
      table inet vpc {
        counter by_primary { }
        counter by_secondary { }
        counter private { }
        chain sources {
          type filter hook prerouting priority raw; policy accept
          iifname f0 ip saddr != { ${own}, 10.0.1.96/28 } counter name by_primary drop
          iifname f0 ip6 saddr != { ${own6}, 2001:db8:1:0:a::/80, fe80::/10, :: } counter name by_primary drop
          iifname f1 ip saddr != { 10.0.1.20, 10.0.1.112/28, 10.0.1.200 } counter name by_secondary drop
          iifname f1 ip6 saddr != { 2001:db8:1::20, 2001:db8:1:0:b::/80, fe80::/10, :: } counter name by_secondary drop
        }
        chain gateway {
          type filter hook forward priority filter; policy accept
          oifname toout ip saddr 10.0.0.0/16 ip saddr != ${own} counter name private drop
        }
      }'`;
}

/** As EC2 attaches an ENI: a link without an address, set down. */
function plugScript(machine: TempNetns): string {
  const { ipv4: own, ipv6: own6 } = SECONDARY.addresses;
  return `
    ip link add f1 type veth peer name eth1 address ${SECONDARY.mac} netns ${machine.name}
    ip link set f1 addrgenmode none
    ip address add fe80::1/64 dev f1 nodad
    ip link set f1 up
    ip route add ${own} dev f1
    ip -6 route add ${own6} dev f1
    ip neigh add ${own} lladdr ${SECONDARY.mac} dev f1 nud permanent
    ip neigh add ${own6} lladdr ${SECONDARY.mac} dev f1 nud permanent
    ip route add 10.0.1.112/28 via ${own} dev f1
    ip route add 10.0.1.200 via ${own} dev f1
    ip -6 route add 2001:db8:1:0:b::/80 via ${own6} dev f1`;
}

/** As a node starts, with the strictest settings that a distribution has, and a Service proxy of policy Local. */
function nodeScript(): string {
  const { ipv4: own, ipv6: own6 } = PRIMARY.addresses;
  return `
    sysctl -qw net.ipv4.conf.all.rp_filter=1 net.ipv4.conf.default.rp_filter=1
    ip address add ${own}/24 dev eth0
    ip address add ${own6}/64 dev eth0 nodad
    ip link set eth0 up
    ip route add default via 10.0.1.1
    ip -6 route add default via fe80::1 dev eth0
    nft '${nodePortTables(PRIMARY.addresses, PODS.second)}'`;
}

/** What a Service proxy makes of a Service of type NodePort with policy Local: nothing is masqueraded. */
export function nodePortTables(
  node: DualStack<Address | string>,
  pod: DualStack<Address | string>,
): string {
  return `
    table ip proxy {
      chain pre {
        type nat hook prerouting priority dstnat
        ip daddr ${node.ipv4} tcp dport ${NODE_PORT} dnat to ${pod.ipv4}:${POD_PORT}
      }
    }
    table ip6 proxy {
      chain pre {
        type nat hook prerouting priority dstnat
        ip6 daddr ${node.ipv6} tcp dport ${NODE_PORT} dnat to [${pod.ipv6}]:${POD_PORT}
      }
    }`;
}

type Ends = Pick<VpcLab, "pods" | "outside"> & {
  readonly machine: TempNetns;
  readonly peer: TempNetns;
};

async function brokenOf(
  ends: Ends,
  shouldBe: (flow: string) => boolean = () => false,
): Promise<string[]> {
  const { machine, peer, outside, pods } = ends;
  const flows: [string, Promise<boolean>][] = [];
  const add = (name: string, works: (wait: string) => Promise<boolean>) =>
    flows.push([name, works(shouldBe(name) ? WAIT.lost : WAIT.answered)]);
  for (const family of ["ipv4", "ipv6"] as const) {
    const end = family === "ipv4" ? "" : " by IPv6";
    const second = String(PODS.second[family]);
    const own = String(SECONDARY.addresses[family]);
    for (const [name, pod] of Object.entries(pods)) {
      add(
        `${name} to peer${end}`,
        (wait) => pings(pod, PEER[family], { wait }),
      );
      add(
        `${name} to Internet${end}`,
        (wait) => pings(pod, OUTSIDE[family], { wait }),
      );
    }
    add(`first to second${end}`, (wait) => pings(pods.first, second, { wait }));
    add(`peer to second${end}`, (wait) => pings(peer, second, { wait }));
    add(`node to second${end}`, (wait) => pings(machine, second, { wait }));
    add(
      `own address to peer${end}`,
      (wait) => pings(machine, PEER[family], { source: own, wait }),
    );
    add(`node port from peer${end}`, (wait) => connects(peer, family, wait));
    add(
      `node port from Internet${end}`,
      (wait) => connects(outside, family, wait),
    );
  }
  add(
    "second to peer by the second CIDR",
    (wait) => pings(pods.second, PEER.second, { wait }),
  );
  const broken: string[] = [];
  for (const [name, works] of flows) if (!await works) broken.push(name);
  return broken;
}

/** How many seconds an answer may take that should come: as long as any machine needs; and one that should not. */
export const WAIT = { answered: "60", lost: "2" } as const;

/** Whether echo requests are answered; the first one may be early, since a link that was set up takes a while. */
export async function pings(
  from: TempNetns,
  to: string,
  { source, wait }: { readonly source?: string; readonly wait: string },
): Promise<boolean> {
  const by = source === undefined ? [] : ["-I", source];
  const { code } = await from.tryExec(
    "ping",
    ...["-n", "-q", "-i", "0.2", "-c", "1", "-w", wait, ...by, to],
  );
  return code === 0;
}

/** Whether a connection to the node's port comes about; the pod takes it. */
async function connects(
  from: TempNetns,
  family: Family,
  wait: string,
): Promise<boolean> {
  const to = `/dev/tcp/${PRIMARY.addresses[family]}/${NODE_PORT}`;
  const { code } = await from.tryExec(
    "timeout",
    ...[wait, "bash", "-c", `: <${to}`],
  );
  return code === 0;
}

async function droppedBy(
  fabric: TempNetns,
): Promise<Readonly<Record<string, number>>> {
  const text = await fabric.exec(
    "nft",
    "list",
    "counters",
    "table",
    "inet",
    "vpc",
  );
  return Object.fromEntries(
    [...text.matchAll(/counter (\w+) \{\s+packets (\d+)/g)]
      .map(([, name = "", packets]) => [name, Number(packets)]),
  );
}
