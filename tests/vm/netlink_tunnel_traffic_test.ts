// KN-9: packets through tunnels made by netlink.
import assert from "node:assert/strict";
import { Address, FAMILIES, type Family, Prefix } from "../../lib/inet/mod.ts";
import { Netns, openLibc } from "../../lib/linux/mod.ts";
import {
  addressAdd,
  type FouEncap,
  FouSocket,
  linkAddTunnel,
  linkAddVeth,
  routeAdd,
  type RouteSocket,
  type TunnelSpec,
} from "../../lib/netlink/mod.ts";
import { openIn } from "../netns/netlink_testing.ts";
import { netnsTest, type TempNetns, tempNetns } from "../netns/testing.ts";
import { AUTO, PORT } from "./netlink_tunnel.ts";

openLibc();

type Pair = readonly [Address, Address];

const KINDS: Readonly<Record<Family, TunnelSpec["kind"]>> = {
  ipv4: "ipip",
  ipv6: "ip6tnl",
};
/** Addresses of the two ends, outside of the tunnel and inside. */
const OUTER: Readonly<Record<Family, Pair>> = {
  ipv4: [Address.parse("192.0.2.1"), Address.parse("192.0.2.2")],
  ipv6: [Address.parse("fd02::1"), Address.parse("fd02::2")],
};
const INNER: Readonly<Record<Family, Pair>> = {
  ipv4: [Address.parse("10.9.0.1"), Address.parse("10.9.0.2")],
  ipv6: [Address.parse("fd09::1"), Address.parse("fd09::2")],
};

/** Counts datagrams without a checksum, then those with one. */
const COUNTING = "add table inet t; " +
  "add chain inet t c { type filter hook prerouting priority -300; }; " +
  `add rule inet t c udp dport ${PORT} udp checksum 0 counter; ` +
  `add rule inet t c udp dport ${PORT} udp checksum != 0 counter`;

for (const checksum of [true, false]) {
  const how = checksum ? "with" : "without";
  netnsTest(
    `packets go through a tunnel in UDP datagrams ${how} a checksum`,
    async () => {
      await using a = await tempNetns("a");
      await using b = await tempNetns("b");
      await connect(a, b);
      const encap = { ...AUTO, checksum };
      await makeTunnels(a, { end: 0, encap });
      await makeTunnels(b, { end: 1, encap });
      await b.exec("nft", COUNTING);
      for (const family of FAMILIES) {
        const [, far] = INNER[family];
        await a.exec("ping", "-c2", "-i0.2", "-W10", String(far));
      }
      assert.deepEqual(await counted(b), checksum ? [0, 4] : [4, 0]);
    },
  );
}

/** A link between the two, with the outer addresses. */
async function connect(a: TempNetns, b: TempNetns): Promise<void> {
  using there = Netns.open(b.path);
  using socket = openIn(a);
  await socket.execute([
    linkAddVeth({ name: "eth0", peer: { name: "eth0", netns: there } }),
  ]);
  for (const [temp, end] of [[a, 0], [b, 1]] as const) {
    await temp.ip("link", "set", "eth0", "up");
    const [ipv4, ipv6] = [OUTER.ipv4[end], OUTER.ipv6[end]];
    await temp.ip("address", "add", `${ipv4}/24`, "dev", "eth0");
    await temp.ip("address", "add", `${ipv6}/64`, "dev", "eth0", "nodad");
  }
}

/** One end of a tunnel of each family. */
async function makeTunnels(
  here: TempNetns,
  options: { readonly end: 0 | 1; readonly encap: FouEncap },
): Promise<void> {
  using socket = openIn(here);
  using netns = Netns.open(here.path);
  using fou = FouSocket.open({ netns });
  await fou.add({ family: "ipv4", port: PORT, protocol: 4 });
  await fou.add({ family: "ipv6", port: PORT, protocol: 41 });
  for (const family of FAMILIES) {
    await makeTunnel(socket, { ...options, family });
  }
}

async function makeTunnel(
  socket: RouteSocket,
  options: {
    readonly family: Family;
    readonly end: 0 | 1;
    readonly encap: FouEncap;
  },
): Promise<void> {
  const { family, end, encap } = options;
  const kind = KINDS[family];
  const [local, remote] = seenFrom(end, OUTER[family]);
  const [inner, far] = seenFrom(end, INNER[family]);
  const { index } = await socket.executeAndGetLink([
    linkAddTunnel({
      name: kind,
      up: true,
      tunnel: { kind, local, remote, ttl: 64, encap },
    }),
  ], { name: kind });
  const prefix = { address: inner, length: inner.bits };
  await socket.execute([
    addressAdd({ index, prefix, noDad: true }),
    routeAdd({ family, destination: Prefix.host(far), index }),
  ]);
}

/** The own address, then the other. */
function seenFrom(end: 0 | 1, [first, second]: Pair): Pair {
  return end === 0 ? [first, second] : [second, first];
}

/** How many datagrams came without a checksum, and with one. */
async function counted(temp: TempNetns): Promise<number[]> {
  const listed = await temp.exec("nft", "list", "table", "inet", "t");
  return [...listed.matchAll(/counter packets (\d+)/g)]
    .map(([, packets]) => Number(packets));
}
