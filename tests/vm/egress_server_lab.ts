import assert from "node:assert/strict";
import { Address, type DualStack, type Family } from "../../lib/inet/mod.ts";
import { type Bytes, inNetns, Netns, openLibc } from "../../lib/linux/mod.ts";
import {
  EgressServer,
  planServer,
  type ServerPlan,
  type ServerRequest,
} from "../../lib/egress/mod.ts";
import { run } from "../lab/mod.ts";
import { eventually } from "../lab/wait.ts";
import { checksum } from "../netns/raw_packets.ts";
import { type TempNetns, tempNetns } from "../netns/testing.ts";
import { serveOutside } from "./egress_outside.ts";

openLibc(); // stays open, so it must not be counted as some test's leak

/** Addresses of each namespace, of the router on the link to it, and the cluster address of the gateway's Service. */
export const ADDRESSES = {
  client: { ipv4: "10.1.1.2", ipv6: "fd01:1::2" },
  stranger: { ipv4: "10.1.3.2", ipv6: "fd01:3::2" },
  gateway: { ipv4: "10.1.2.2", ipv6: "fd01:2::2" },
  outside: { ipv4: "203.0.113.9", ipv6: "2001:db8:9::9" },
  service: { ipv4: "10.96.0.10", ipv6: "fd96::10" },
} as const;

/** The UDP port of the tunnels. */
export const PORT = 5555;

type Host = "client" | "stranger" | "gateway" | "outside";

/** Namespaces joined by a router, which translates the cluster address as kube-proxy does. */
export interface EgressLab extends AsyncDisposable {
  readonly client: TempNetns;
  readonly stranger: TempNetns;
  readonly gateway: TempNetns;
  readonly outside: TempNetns;
  readonly router: TempNetns;
  /** The gateway's namespace, open. */
  readonly netns: Netns;
  /** Makes the gateway. It is closed with the lab, unless before. */
  open(changes?: Partial<ServerRequest>): Promise<EgressServer>;
  /** What the client's end sees as its own address when it asks outside by HTTP. */
  ask(from: TempNetns, family: Family, size?: number): Promise<string>;
}

/** The gateway as planned by tests. */
export function planOf(changes: Partial<ServerRequest> = {}): ServerPlan {
  return planServer({
    addresses: addressesOf("gateway"),
    ifname: "eth0",
    mtu: 1500,
    port: PORT,
    sourcePortAuto: true,
    ...changes,
  });
}

/** A host's addresses, parsed. */
export function addressesOf(host: Host): DualStack<Address> & {
  readonly ipv4: Address;
  readonly ipv6: Address;
} {
  const { ipv4, ipv6 } = ADDRESSES[host];
  return { ipv4: Address.parse(ipv4), ipv6: Address.parse(ipv6) };
}

/** The client's addresses, as the gateway is told them. */
export const CLIENTS: readonly Address[] = [
  addressesOf("client").ipv4,
  addressesOf("client").ipv6,
];

/** A new namespace inherits forwarding from the first one, where other tests may have switched it on. */
const NO_FORWARDING = {
  "ipv4/ip_forward": 0,
  "ipv6/conf/all/forwarding": 0,
};

/** Of routers and of clients that are made by hand. */
const SETTINGS = Object.fromEntries(
  ["all", "default"].flatMap((all) => [
    [`ipv4/conf/${all}/rp_filter`, 0],
    [`ipv4/conf/${all}/forwarding`, 1],
    [`ipv6/conf/${all}/forwarding`, 1],
    // A router asks for its neighbours by its link-local address, at once.
    [`ipv6/conf/${all}/accept_dad`, 0],
  ]),
);

/** Without a process: each costs the virtual machine as much as all of it here. */
function set(netns: Netns, settings: Readonly<Record<string, number>>): void {
  inNetns(netns, () => {
    for (const [name, value] of Object.entries(settings)) {
      Deno.writeTextFileSync(`/proc/sys/net/${name}`, String(value));
    }
  });
}

/** Commands of `ip`, all by one process. */
async function ipBatch(
  netns: TempNetns,
  lines: readonly string[],
  options: readonly string[] = [],
): Promise<void> {
  await run("ip", [...options, "-n", netns.name, "-batch", "-"], {
    stdin: lines.join("\n"),
  });
}

/** Makes the namespaces, their links and the router; servers outside only when asked. */
export async function egressLab(
  options: { readonly servers?: boolean } = {},
): Promise<EgressLab> {
  await using stack = new AsyncDisposableStack();
  const make = async (name: string) => {
    const netns = stack.use(await tempNetns(name));
    return { ...netns, handle: stack.use(Netns.open(netns.path)) };
  };
  const router = await make("router");
  set(router.handle, SETTINGS);
  const join = async (host: Host) => {
    const netns = await make(host);
    set(netns.handle, NO_FORWARDING);
    await joinRouter(router, netns, host);
    return netns;
  };
  const gateway = await join("gateway");
  const client = await join("client");
  const stranger = await join("stranger");
  const outside = await join("outside");
  await run("nsenter", [`--net=${router.path}`, "nft", "-f", "-"], {
    stdin: SERVICE,
  });
  const { handle: netns } = gateway;
  if (options.servers === true) {
    stack.use(serveOutside(outside.handle, Object.values(ADDRESSES.outside)));
  }
  const resources = stack.move();
  return {
    client,
    stranger,
    gateway,
    outside,
    router,
    netns,
    open: async (changes) =>
      resources.use(await EgressServer.open(planOf(changes), { netns })),
    async ask(from, family, size = 0): Promise<string> {
      const address = ADDRESSES.outside[family];
      const host = family === "ipv6" ? `[${address}]` : address;
      const url = `http://${host}/${size}`;
      const body = await from.exec("curl", "-sSm", "60", url);
      const [peer, rest] = body.split("\n");
      if (rest?.length !== size) {
        throw new Error(`Cannot use answer of ${url}: ${rest?.length} bytes`);
      }
      return peer ?? "";
    },
    [Symbol.asyncDispose]: () => resources.disposeAsync(),
  };
}

/** Runs a shell script in a namespace, and fails when one of its commands does. */
export function shell(netns: TempNetns, script: string): Promise<string> {
  return netns.exec("sh", "-euc", script);
}

/** The router's end of a link is numbered .1; each host has its own network. */
async function joinRouter(
  router: TempNetns,
  netns: TempNetns,
  host: Host,
): Promise<void> {
  const { ipv4, ipv6 } = ADDRESSES[host];
  const near = {
    ipv4: ipv4.replace(/[0-9]+$/, "1"),
    ipv6: ipv6.replace(/[0-9]+$/, "1"),
  };
  // A link that has just come up answers nobody who asks for its IPv6 addresses; after a second it is asked again.
  const [nearMac, mac] = ["02:00:00:00:00:01", "02:00:00:00:00:02"];
  await ipBatch(router, [
    `link add ${host} address ${nearMac} type veth peer name eth0 address ${mac} netns ${netns.name}`,
    `address add ${near.ipv4}/24 dev ${host}`,
    `address add ${near.ipv6}/64 dev ${host} nodad`,
    `link set ${host} up`,
    `neighbor add ${ipv6} lladdr ${mac} dev ${host}`,
  ]);
  await ipBatch(netns, [
    `address add ${ipv4}/24 dev eth0`,
    `address add ${ipv6}/64 dev eth0 nodad`,
    "link set eth0 up",
    `route add default via ${near.ipv4}`,
    `route add default via ${near.ipv6}`,
    `neighbor add ${near.ipv6} lladdr ${nearMac} dev eth0`,
  ]);
}

const SERVICE = `table inet service {
  chain prerouting {
    type nat hook prerouting priority dstnat
    ip daddr ${ADDRESSES.service.ipv4} udp dport ${PORT} dnat ip to ${ADDRESSES.gateway.ipv4}
    ip6 daddr ${ADDRESSES.service.ipv6} udp dport ${PORT} dnat ip6 to ${ADDRESSES.gateway.ipv6}
  }
}`;

/** How a client's tunnels are made by hand. */
export interface HandMadeClient {
  /** A port, or `auto`. */
  readonly sourcePort: string;
  /** Whether outer datagrams have a checksum; upstream Coil's have none. */
  readonly checksum: boolean;
}

/** As lib/egress makes them. */
export const OURS: HandMadeClient = { sourcePort: "auto", checksum: true };

/** As upstream Coil makes them unless told otherwise. */
export const UPSTREAM: HandMadeClient = {
  sourcePort: String(PORT),
  checksum: false,
};

/** Makes a client with `ip`, as lib/egress or as upstream Coil does it. */
export async function makeClient(
  netns: TempNetns,
  { sourcePort, checksum }: HandMadeClient,
): Promise<void> {
  const { client, service, outside } = ADDRESSES;
  const encap = `encap fou encap-sport ${sourcePort} encap-dport ${PORT} ${
    checksum ? "encap-csum" : "noencap-csum"
  }`;
  const csum6 = checksum ? "encap-udp6-csum" : "noencap-udp6-csum";
  const [mtu4, mtu6] = checksum ? ["mtu 1472", "mtu 1452"] : ["", ""];
  using handle = Netns.open(netns.path);
  set(handle, SETTINGS);
  await ipBatch(netns, [
    `fou add port ${PORT} ipproto 4`,
    `fou add port ${PORT} ipproto 41 -6`,
    "link add coil_ipip4 type ipip external",
    "link add coil_ipip6 type ip6tnl external",
    `link add fou4_up ${mtu4} type ipip local ${client.ipv4} remote ${service.ipv4} ttl 225 ${encap}`,
    `link add fou6_up ${mtu6} type ip6tnl mode ip6ip6 local ${client.ipv6} remote ${service.ipv6} encaplimit none hoplimit 225 ${encap} ${csum6}`,
    ...["coil_ipip4", "coil_ipip6", "fou4_up", "fou6_up"].map((link) =>
      `link set ${link} up`
    ),
    "rule add to 10.0.0.0/8 pref 2000 lookup main",
    "rule add pref 2100 lookup 118",
    `route add ${outside.ipv4}/32 dev fou4_up table 118`,
    `route add ${outside.ipv6}/128 dev fou6_up table 118`,
  ]);
  // A rule's family is that of the process.
  await ipBatch(netns, [
    "rule add to fc00::/7 pref 2000 lookup main",
    "rule add pref 2100 lookup 118",
  ], ["-6"]);
}

/** How often each kind of packet was counted. */
export async function counted(
  server: EgressServer,
): Promise<Record<string, number>> {
  const counters = await server.readCounters();
  const entries = Object.entries(counters).flatMap(([kind, dual]) =>
    (["ipv4", "ipv6"] as const).map((family) =>
      [`${kind} ${family}`, Number(dual[family]?.packets ?? 0)] as const
    )
  );
  return Object.fromEntries(entries.filter(([, packets]) => packets > 0));
}

/** Waits until a gateway has counted just so much: on a busy machine packets are under way for a moment. */
export async function expectCounted(
  server: EgressServer,
  wanted: Readonly<Record<string, number>>,
): Promise<void> {
  await eventually("the gateway's counters", async () => {
    assert.deepEqual(await counted(server), wanted);
    return true;
  });
}

/** Sends one UDP datagram with these bytes. */
export async function sendDatagram(
  from: TempNetns,
  to: { readonly address: string; readonly port: number },
  bytes: Uint8Array,
): Promise<void> {
  const text = Array.from(
    bytes,
    (byte) => `\\x${byte.toString(16).padStart(2, "0")}`,
  ).join("");
  // dd writes all of it at once, which makes it one datagram.
  await from.exec(
    "bash",
    "-c",
    `printf '${text}' | dd bs=65536 iflag=fullblock status=none > /dev/udp/${to.address}/${to.port}`,
  );
}

/** An echo request as it is on the wire. */
export function echoRequest(source: Address, destination: Address): Bytes {
  return source.family === "ipv4"
    ? echoRequest4(source, destination)
    : echoRequest6(source, destination);
}

function echoRequest4(source: Address, destination: Address): Bytes {
  const packet = new Uint8Array(28);
  const view = new DataView(packet.buffer);
  packet.set([0x45, 0, 0, 28, 0, 1, 0, 0, 64, 1]);
  packet.set(source.toBytes(), 12);
  packet.set(destination.toBytes(), 16);
  packet.set([8, 0, 0, 0, 0x12, 0x34, 0, 1], 20);
  view.setUint16(10, checksum(packet.subarray(0, 20)));
  view.setUint16(22, checksum(packet.subarray(20)));
  return packet;
}

function echoRequest6(source: Address, destination: Address): Bytes {
  const packet = new Uint8Array(48);
  packet.set([0x60, 0, 0, 0, 0, 8, 58, 64]);
  packet.set(source.toBytes(), 8);
  packet.set(destination.toBytes(), 24);
  packet.set([128, 0, 0, 0, 0x12, 0x34, 0, 1], 40);
  const pseudo = new Uint8Array(48);
  pseudo.set(packet.subarray(8, 40));
  pseudo.set([0, 0, 0, 8, 0, 0, 0, 58], 32);
  pseudo.set(packet.subarray(40), 40);
  new DataView(packet.buffer).setUint16(42, checksum(pseudo));
  return packet;
}
