import { Address } from "../../lib/inet/mod.ts";
import { Netns } from "../../lib/linux/mod.ts";
import {
  planServer,
  type ServerPlan,
  type ServerRequest,
} from "../../lib/egress/mod.ts";
import { NetfilterSocket, type NftTable } from "../../lib/netlink/mod.ts";
import { sendRaw } from "./raw_packets.ts";
import { keepFlows, type TempNetns, tempNetns } from "./testing.ts";

/** Addresses of the three. */
export const AT = {
  client: { ipv4: "10.1.1.2", ipv6: "fd01:1::2" },
  second: { ipv4: "10.1.1.3", ipv6: "fd01:1::3" },
  gateway: { ipv4: "10.1.2.2", ipv6: "fd01:2::2" },
  outside: { ipv4: "203.0.113.9", ipv6: "2001:db8:9::9" },
} as const;

/** Both ends of each link have it, so nobody has to ask for neighbours. */
const MAC = "02:00:00:00:00:01";

/**
 * A gateway's nft table where the kernel has no Foo over UDP: plain links have
 * the names of the tunnel devices, and what a client sends in the tunnel comes
 * in by them. What unpacks and guards the tunnel is for the VM.
 */
export interface GatewayTableLab extends AsyncDisposable {
  /** Has the addresses of two clients. */
  readonly client: TempNetns;
  readonly gateway: TempNetns;
  readonly outside: TempNetns;
  /** The gateway's nf_tables. */
  readonly netfilter: NetfilterSocket;
  /** The gateway's namespace, open. */
  readonly netns: Netns;
  /** Sends these packets into the gateway's tunnel device of their family. */
  send(packets: readonly Uint8Array[]): Promise<void>;
  /** Sends these packets to the gateway from outside. */
  sendFromOutside(packets: readonly Uint8Array[]): Promise<void>;
  /** Packets that outside has got, by source: `10.1.1.2 x 3`. */
  seen(): Promise<string[]>;
  /** What the table's counters have counted, those of 0 left out. */
  counted(): Promise<Record<string, number>>;
}

/** The plan of the lab's gateway. */
export function planOf(changes: Partial<ServerRequest> = {}): ServerPlan {
  return planServer({
    addresses: {
      ipv4: Address.parse(AT.gateway.ipv4),
      ipv6: Address.parse(AT.gateway.ipv6),
    },
    ifname: "eth0",
    mtu: 1500,
    port: 5555,
    sourcePortAuto: true,
    ...changes,
  });
}

/** Makes the namespaces; the gateway has no table yet. */
export async function gatewayTableLab(): Promise<GatewayTableLab> {
  await using stack = new AsyncDisposableStack();
  const gateway = stack.use(await tempNetns("gateway"));
  const client = stack.use(await tempNetns("client"));
  const outside = stack.use(await tempNetns("outside"));
  for (const { exec } of [gateway, client, outside]) {
    await exec("sh", "-euc", SETTINGS);
  }
  await keepFlows(gateway);
  await gateway.exec("sh", "-euc", links(client, outside));
  await client.exec("sh", "-euc", CLIENT);
  await outside.exec("sh", "-euc", OUTSIDE);
  const netns = stack.use(Netns.open(gateway.path));
  const netfilter = stack.use(NetfilterSocket.open({ netns }));
  const kept = stack.move();
  return {
    client,
    gateway,
    outside,
    netfilter,
    netns,
    async send(packets): Promise<void> {
      for (const [name, version] of [["tun4", 4], ["tun6", 6]] as const) {
        const own = packets.filter(([first = 0]) => first >> 4 === version);
        await sendRaw(client, { name, mac: MAC }, own);
      }
    },
    sendFromOutside: (packets) =>
      sendRaw(outside, { name: "eth0", mac: MAC }, packets),
    seen: () => seenBy(outside),
    async counted(): Promise<Record<string, number>> {
      const counters = await netfilter.readCounters("coil");
      return Object.fromEntries(
        counters.entries().map(([name, { packets }]) =>
          [name, Number(packets)] as const
        ).filter(([, packets]) => packets > 0),
      );
    },
    [Symbol.asyncDispose]: () => kept.disposeAsync(),
  };
}

/** Makes the table the gateway's, with both clients in it. */
export async function useTable(
  { netfilter }: Pick<GatewayTableLab, "netfilter">,
  table: NftTable,
): Promise<void> {
  const clients = [AT.client, AT.second].flatMap((both) => Object.values(both))
    .map((text) => Address.parse(text));
  await netfilter.replaceTable({
    ...table,
    sets: table.sets.map((set) => ({
      ...set,
      elements: set.key.length !== 2 ? [] : clients
        .filter(({ family }) => set.key[0] === `${family}_addr`)
        .map((address) => [address, address] as const),
    })),
  });
}

const SETTINGS = `
for all in all default; do
  echo 0 > /proc/sys/net/ipv4/conf/$all/rp_filter
  echo 1 > /proc/sys/net/ipv4/conf/$all/forwarding
  echo 1 > /proc/sys/net/ipv6/conf/$all/forwarding
  echo 0 > /proc/sys/net/ipv6/conf/$all/accept_dad
done`;

function links(client: TempNetns, outside: TempNetns): string {
  const join = (name: string, peer: string, netns: TempNetns) => `
    ip link add ${name} address ${MAC} type veth peer name ${peer} address ${MAC} netns ${netns.name}
    ip link set ${name} arp off up
    ip -n ${netns.name} link set ${peer} arp off up`;
  return `
    ${join("coil_fou4", "tun4", client)}
    ${join("coil_fou6", "tun6", client)}
    ${join("eth0", "eth0", outside)}
    ip address add ${AT.gateway.ipv4}/32 dev eth0
    ip address add ${AT.gateway.ipv6}/128 dev eth0 nodad
    ip route add default dev eth0
    ip -6 route add default dev eth0
    ip route add 10.1.1.0/24 dev coil_fou4
    ip -6 route add fd01:1::/64 dev coil_fou6`;
}

const CLIENT = `
  ip address add ${AT.client.ipv4}/32 dev tun4
  ip address add ${AT.second.ipv4}/32 dev tun4
  ip address add ${AT.client.ipv6}/128 dev tun6 nodad
  ip address add ${AT.second.ipv6}/128 dev tun6 nodad
  ip route add default dev tun4
  ip -6 route add default dev tun6`;

/** Counts what comes in, but for what hosts say of themselves on the link. */
const OUTSIDE = `
  ip address add ${AT.outside.ipv4}/32 dev eth0
  ip address add ${AT.outside.ipv6}/128 dev eth0 nodad
  ip route add default dev eth0
  ip -6 route add default dev eth0
  nft -f - <<END
table inet seen {
  set ipv4 { type ipv4_addr; flags dynamic; counter; }
  set ipv6 { type ipv6_addr; flags dynamic; counter; }
  chain prerouting {
    type filter hook prerouting priority -400
    ip6 saddr fe80::/10 accept
    ip6 saddr :: accept
    iifname eth0 add @ipv4 { ip saddr }
    iifname eth0 add @ipv6 { ip6 saddr }
  }
}
END`;

async function seenBy({ exec }: TempNetns): Promise<string[]> {
  const text = await exec("nft", "list", "table", "inet", "seen");
  return [...text.matchAll(/([0-9a-f.:]+) counter packets (\d+)/g)]
    .map(([, address, packets]) => `${address} x ${packets}`).toSorted();
}
