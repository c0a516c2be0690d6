// KN-9: tunnels made by netlink, compared with twins that `ip` made.
import assert from "node:assert/strict";
import { Address, type Family, Prefix } from "../../lib/inet/mod.ts";
import { openLibc } from "../../lib/linux/mod.ts";
import {
  addressAdd,
  linkAddTunnel,
  linkChangeTunnel,
  linkSet,
  routeAdd,
  type TunnelSpec,
} from "../../lib/netlink/mod.ts";
import { linkAddDummy } from "../lab/netlink_requests.ts";
import { openIn } from "../netns/netlink_testing.ts";
import { netnsTest, type TempNetns, tempNetns } from "../netns/testing.ts";
import { AUTO, PORT } from "./netlink_tunnel.ts";

openLibc();

type Json = Record<string, unknown>;

async function ipLink(temp: TempNetns, name: string): Promise<Json> {
  const row = (await temp.ipJson("link", "show", name))[0];
  assert(row !== undefined);
  return row;
}

const LOCAL4 = Address.parse("10.1.1.2");
const LOCAL6 = Address.parse("fd01::2");
const PEER4 = Address.parse("10.96.0.10");
const PEER6 = Address.parse("fd96::10");
const FIXED = {
  sourcePort: PORT,
  destinationPort: PORT,
  checksum: false,
} as const;
const ENCAP_AUTO = `encap fou encap-sport auto encap-dport ${PORT} encap-csum`;
const ENCAP_FIXED =
  `encap fou encap-sport ${PORT} encap-dport ${PORT} noencap-csum`;

/** A tunnel, and what one has to tell `ip` for the same. */
const TWINS: readonly (readonly [string, TunnelSpec, string])[] = [
  [
    "ipip to a peer, source port by flow",
    { kind: "ipip", local: LOCAL4, remote: PEER4, ttl: 225, encap: AUTO },
    `mode ipip local ${LOCAL4} remote ${PEER4} ttl 225 ${ENCAP_AUTO}`,
  ],
  [
    "ipip to a peer, fixed source port",
    { kind: "ipip", local: LOCAL4, remote: PEER4, ttl: 225, encap: FIXED },
    `mode ipip local ${LOCAL4} remote ${PEER4} ttl 225 ${ENCAP_FIXED}`,
  ],
  [
    "ipip to whom the route says",
    { kind: "ipip", local: LOCAL4, ttl: 225, encap: AUTO },
    `mode ipip local ${LOCAL4} remote any ttl 225 ${ENCAP_AUTO}`,
  ],
  [
    "ipip without UDP",
    { kind: "ipip", local: LOCAL4, remote: PEER4 },
    `mode ipip local ${LOCAL4} remote ${PEER4}`,
  ],
  [
    "ipip that receives from all",
    { kind: "ipip", collectMetadata: true },
    "mode ipip external",
  ],
  [
    "ip6tnl to a peer, source port by flow",
    { kind: "ip6tnl", local: LOCAL6, remote: PEER6, ttl: 225, encap: AUTO },
    `mode ip6ip6 local ${LOCAL6} remote ${PEER6} encaplimit none hoplimit 225 ${ENCAP_AUTO}`,
  ],
  [
    "ip6tnl to a peer, fixed source port",
    { kind: "ip6tnl", local: LOCAL6, remote: PEER6, ttl: 225, encap: FIXED },
    `mode ip6ip6 local ${LOCAL6} remote ${PEER6} encaplimit none hoplimit 225 ${ENCAP_FIXED} noencap-udp6-csum`,
  ],
  [
    "ip6tnl to whom the route says",
    { kind: "ip6tnl", local: LOCAL6, ttl: 225, encap: AUTO },
    `mode ip6ip6 local ${LOCAL6} remote any encaplimit none hoplimit 225 ${ENCAP_AUTO}`,
  ],
  [
    "ip6tnl without UDP",
    { kind: "ip6tnl", local: LOCAL6, remote: PEER6, ttl: 64 },
    `mode ip6ip6 local ${LOCAL6} remote ${PEER6} encaplimit none hoplimit 64`,
  ],
  [
    "ip6tnl that receives from all",
    { kind: "ip6tnl", collectMetadata: true },
    "mode ip6ip6 external",
  ],
];

netnsTest(
  "KN-9: linkAddTunnel() makes what ip would make, set up at once",
  async () => {
    for (const [what, tunnel, args] of TWINS) {
      await using ours = await tempNetns("ours");
      await using twin = await tempNetns("twin");
      using socket = openIn(ours);
      const link = await socket.executeAndGetLink([
        linkAddTunnel({ name: "t", mtu: 1400, tunnel, up: true }),
      ], { name: "t" });
      await twin.ip(
        ...["link", "add", "name", "t", "mtu", "1400"],
        ...["type", tunnel.kind, ...args.split(" ")],
      );
      await twin.ip("link", "set", "dev", "t", "up");
      const [made, wanted] = [await ipLink(ours, "t"), await ipLink(twin, "t")];
      assert.deepEqual(made["linkinfo"], wanted["linkinfo"], what);
      assert.deepEqual(made["flags"], wanted["flags"], what);
      assert((made["flags"] as string[]).includes("UP"), what);
      assert.equal(made["mtu"], 1400, what);
      const { kind, local, remote, ttl, encap } = tunnel;
      assert.deepEqual(
        link.tunnel,
        tunnel.collectMetadata === true
          ? tunnel
          : { kind, local, remote, ttl, encap },
        what,
      );
      assert.equal(link.up, true);
      assert.equal(link.kind, kind);
      // The kernel's own tunnels, where it made some, are tunnels without ends.
      const others = (await socket.listLinks()).filter((l) => l.name !== "t");
      for (const { name, tunnel } of others) {
        assert.equal(tunnel?.remote, undefined, name);
      }
    }
  },
);

const PEERS: Readonly<
  Record<TunnelSpec["kind"], readonly [Address, Address, Address]>
> = {
  ipip: [LOCAL4, PEER4, Address.parse("10.96.0.11")],
  ip6tnl: [LOCAL6, PEER6, Address.parse("fd96::11")],
};

for (const kind of ["ipip", "ip6tnl"] as const) {
  const family: Family = kind === "ipip" ? "ipv4" : "ipv6";
  const [local, remote, other] = PEERS[kind];
  const spec = { kind, local, remote, ttl: 225, encap: AUTO } as const;

  netnsTest(
    `linkChangeTunnel() changes ports and peer of an ${kind}; its routes stay`,
    async () => {
      await using temp = await tempNetns();
      using socket = openIn(temp);
      const { index } = await socket.executeAndGetLink([
        linkAddTunnel({ name: "t", mtu: 1300, tunnel: spec, up: true }),
      ], { name: "t" });
      const uplink = await socket.executeAndGetLink([
        linkAddDummy({ name: "up0", mtu: 1500 }),
        linkSet({ name: "up0" }, { up: true }),
      ], { name: "up0" });
      await socket.execute([
        addressAdd({
          index: uplink.index,
          prefix: { address: local, length: local.bits },
          noDad: true,
        }),
        routeAdd({ family, index: uplink.index }),
      ]);
      const destination = Prefix.parse(
        family === "ipv4" ? "203.0.113.0/24" : "2001:db8:9::/64",
      );
      const table = 118;
      await socket.execute([routeAdd({ family, destination, index, table })]);
      const changes: readonly TunnelSpec[] = [
        { ...spec, encap: FIXED },
        { ...spec, remote: other },
        { ...spec, encap: undefined },
        { ...spec, ttl: undefined },
        spec,
      ];
      for (const tunnel of changes) {
        await socket.execute([
          linkChangeTunnel({ index }, tunnel, { mtu: 1300 }),
        ]);
        const link = await socket.getLink({ name: "t" });
        assert.deepEqual(link?.tunnel, tunnel);
        assert.equal(link?.mtu, 1300);
        assert.equal(link?.index, index);
        assert.equal(link?.up, true);
        const routes = await socket.listRoutes({ table, family });
        assert.deepEqual(routes.map((r) => [r.destination, r.index]), [
          [destination, index],
        ]);
      }
      await socket.execute([linkChangeTunnel({ index }, spec)]);
      const link = await socket.getLink({ name: "t" });
      // The uplink's 1500 less the headers of IPv6 and of UDP.
      assert.equal(link?.mtu, kind === "ipip" ? 1300 : 1452);
    },
  );

  netnsTest(
    `tunnels of kind ${kind} are refused as the kernel's rules demand`,
    async () => {
      await using temp = await tempNetns();
      using socket = openIn(temp);
      const receiver: TunnelSpec = { kind, collectMetadata: true };
      const outcomes = await socket.tryExecute([
        linkAddTunnel({ name: "t", tunnel: spec }),
        linkAddTunnel({ name: "t", tunnel: { ...spec, remote: other } }),
        linkAddTunnel({ name: "u", tunnel: spec }),
        linkAddTunnel({ name: "r", tunnel: receiver }),
        linkAddTunnel({ name: "s", tunnel: receiver }),
        linkChangeTunnel({ name: "r" }, { ...spec, remote: other }),
        linkChangeTunnel({ name: "t" }, { ...spec, remote: undefined }),
        linkChangeTunnel({ name: "t" }, receiver),
        linkChangeTunnel({ name: "missing" }, spec),
      ]);
      // An ip6tnl lets its ends come and go, and goes on collecting metadata.
      const strict = kind === "ipip" ? "EINVAL" : undefined;
      assert.deepEqual(outcomes.map((error) => error?.code), [
        ...[undefined, "EEXIST", "EEXIST"],
        ...[undefined, "EEXIST"],
        ...[strict, strict, "EINVAL", "ENODEV"],
      ]);
      assert.equal(
        outcomes[1]?.message.startsWith(`Cannot create ${kind} "t":`),
        true,
      );
      const names = (await socket.listLinks()).map(({ name }) => name);
      const found = await socket.getLink({ name: "r" });
      assert.deepEqual(found?.tunnel, receiver);
      assert(
        names.includes("r") && !names.includes("s") && !names.includes("u"),
      );
    },
  );
}

netnsTest(
  "the kernel's own tunnels are renamed, and a dummy holds an address",
  async () => {
    await using temp = await tempNetns();
    using socket = openIn(temp);
    await socket.execute([
      linkAddTunnel({
        name: "t",
        tunnel: { kind: "ipip", collectMetadata: true },
      }),
      linkAddTunnel({
        name: "u",
        tunnel: { kind: "ip6tnl", collectMetadata: true },
      }),
      linkAddDummy({ name: "d", mtu: 1234 }),
    ]);
    const dummy = await ipLink(temp, "d");
    assert.deepEqual(dummy["linkinfo"], { info_kind: "dummy" });
    assert.equal(dummy["mtu"], 1234);
    for (
      const [name, rename] of [["tunl0", "coil_tunl"], [
        "ip6tnl0",
        "coil_ip6tnl",
      ]] as const
    ) {
      const link = await socket.getLink({ name });
      assert(link !== undefined, name);
      await socket.execute([linkSet({ index: link.index }, { rename })]);
      assert.equal((await ipLink(temp, rename))["ifindex"], link.index);
    }
  },
);
