// Clients with real tunnels to a real gateway.
import assert from "node:assert/strict";
import fc from "fast-check";
import { Address, FAMILIES, type Family } from "../../lib/inet/mod.ts";
import {
  clearClient,
  type ClientGateway,
  type ClientPlan,
  isClient,
} from "../../lib/egress/mod.ts";
import { gatewayMark } from "../../lib/egress/plan/choice.ts";
import { ConntrackSocket } from "../../lib/netlink/mod.ts";
import { applyCut, linkIndexes } from "../netns/egress_client_lab.ts";
import { eventually } from "../lab/wait.ts";
import {
  type ClientLab,
  clientLab,
  directGatewayFor,
  EVERYWHERE,
  gatewayFor,
  lostMeanwhile,
  planOf,
  SERVICES,
} from "./egress_client_lab.ts";
import {
  ADDRESSES,
  addressesOf,
  counted,
  echoRequest,
  PORT,
  sendDatagram,
  shell,
} from "./egress_server_lab.ts";

const EGRESS = gatewayFor(EVERYWHERE);

const VARIANTS: readonly (readonly [string, boolean, readonly Family[]])[] = [
  ["automatic source port", true, FAMILIES],
  ["fixed source port", false, FAMILIES],
  ["IPv4 only", true, ["ipv4"]],
  ["IPv6 only", true, ["ipv6"]],
];
for (const [name, sourcePortAuto, families] of VARIANTS) {
  Deno.test(`KN-8 KN-9 KN-15: a client with ${name} reaches outside with the gateway's address`, async () => {
    await using lab = await clientLab({ servers: true });
    const all = addressesOf("client");
    const addresses = Object.fromEntries(families.map((f) => [f, all[f]]));
    await lab.apply([{ ...EGRESS, sourcePortAuto }], { addresses });
    const port = sourcePortAuto ? "auto" : String(PORT);
    const state = await lab.state();
    for (const family of FAMILIES) {
      const is = families.includes(family);
      assert.equal(LINKS[family](port).test(state), is, state);
      assert.equal(PORTS[family].test(state), is, state);
      if (!is) continue;
      const seen = await lab.lab.ask(lab.client, family, 100_000);
      assert.equal(seen, ADDRESSES.gateway[family]);
    }
  });
}

for (const has of FAMILIES) {
  Deno.test(`a pod of both families behind a Service of ${has} alone: the one is carried, the other refused, nothing sent past the gateway`, async () => {
    await using lab = await clientLab({ servers: true });
    await lab.apply([{ ...EGRESS, service: { [has]: EGRESS.service[has] } }]);
    await shell(lab.client, COUNT_LEAVING);
    const other = has === "ipv4" ? "ipv6" : "ipv4";
    assert.match(await tryTcp(lab, other), /No route to host/);
    assert.match(
      await shell(lab.client, "nft list table inet leaving"),
      /packets 0 bytes 0/,
    );
    const seen = await lab.lab.ask(lab.client, has, 1_000);
    assert.equal(seen, ADDRESSES.gateway[has]);
    const state = await lab.state();
    assert.match(state, LINKS[has]("auto"));
    assert.doesNotMatch(state, LINKS[other]("auto"));
    // The other family comes when the Service gets it.
    await lab.apply([EGRESS]);
    assert.equal(
      await lab.lab.ask(lab.client, other, 1_000),
      ADDRESSES.gateway[other],
    );
  });
}

/** Connects to outside, and returns what `bash` says when it cannot. */
async function tryTcp({ client }: ClientLab, family: Family): Promise<string> {
  const path = `/dev/tcp/${ADDRESSES.outside[family]}/80`;
  return (await client.tryExec("bash", "-c", `: < ${path}`)).stderr;
}

/** As `ip -d link` shows them. */
const LINKS: Readonly<Record<Family, (port: string) => RegExp>> = {
  ipv4: (port) =>
    new RegExp(
      `^fou4_0a60000a@NONE: <POINTOPOINT,NOARP,UP,LOWER_UP> mtu 1472 .* ipip P remote 10.96.0.10 local 10.1.1.2 ttl 225 pmtudisc encap fou encap-sport ${port} encap-dport 5555 noencap-csum`,
      "m",
    ),
  ipv6: (port) =>
    new RegExp(
      `^fou6_0a3cb378@NONE: <POINTOPOINT,NOARP,UP,LOWER_UP> mtu 1452 .* ip6tnl ip6ip6 remote fd96::10 local fd01:1::2 hoplimit 225 encaplimit none .* encap fou encap-sport ${port} encap-dport 5555 noencap-csum noencap-csum6`,
      "m",
    ),
};
const PORTS: Readonly<Record<Family, RegExp>> = {
  ipv4: /^port 5555 ipproto 4$/m,
  ipv6: /^port 5555 ipproto 41 -6$/m,
};

Deno.test("a second call does nothing, and a daemon that starts again neither", async () => {
  await using lab = await clientLab();
  const first = await lab.apply([EGRESS], { originatingOnly: true });
  assert.notDeepEqual(first.changes, []);
  const [state, indexes] = [await lab.state(), await linkIndexes(lab.client)];
  const second = await lab.apply([EGRESS], { originatingOnly: true });
  assert.deepEqual(second.changes, []);
  assert.equal(await lab.state(), state);
  assert.deepEqual(await linkIndexes(lab.client), indexes);
});

/** What upstream Coil 2.15 leaves in a pod of both families, its fixed source port included. */
const UPSTREAM = `
  ip fou add port 5555 ipproto 4
  ip fou add port 5555 ipproto 41 -6
  ip link add fou-dummy type dummy
  for all in all default; do echo 0 > /proc/sys/net/ipv4/conf/$all/rp_filter; done
  ip rule add priority 1800 to 169.254.0.0/16 lookup main
  ip rule add priority 1900 lookup 117
  ip rule add priority 2000 to 10.0.0.0/8 lookup main
  ip rule add priority 2001 to 172.16.0.0/12 lookup main
  ip rule add priority 2002 to 192.168.0.0/16 lookup main
  ip rule add priority 2100 lookup 118
  ip -6 rule add priority 1800 to fe80::/10 lookup main
  ip -6 rule add priority 1900 lookup 117
  ip -6 rule add priority 2000 to fc00::/7 lookup main
  ip -6 rule add priority 2100 lookup 118
  ip link add fou4_0a60000a type ipip local 10.1.1.2 remote 10.96.0.10 ttl 225 \\
    encap fou encap-sport 5555 encap-dport 5555
  ip link add fou6_0a3cb378 type ip6tnl mode any local fd01:1::2 remote fd96::10 \\
    encaplimit 0 hoplimit 225 encap fou encap-sport 5555 encap-dport 5555
  ip link add coil_ipip4 type ipip external
  ip link add coil_ipip6 type ip6tnl external
  for pair in tunl0:coil_tunl ip6tnl0:coil_ip6tnl; do
    ip link set \${pair%:*} name \${pair#*:} 2> /dev/null || true
  done
  for link in fou4_0a60000a fou6_0a3cb378 coil_ipip4 coil_ipip6; do ip link set $link up; done
  ip route add default dev fou4_0a60000a table 118 proto 30 scope global
  ip -6 route add default dev fou6_0a3cb378 table 118 proto 30
  ip route add 10.5.0.0/16 dev fou4_0a60000a table 117 proto 30 scope global
  ip rule add priority 1000 fwmark INDEX lookup 100INDEX
  ip route add 10.1.1.0/24 dev eth0 table 100INDEX proto kernel scope link src 10.1.1.2
  ip route add default via 10.1.1.1 dev eth0 table 100INDEX`;

Deno.test("a client of upstream Coil is taken over in place, and its traffic goes on", async () => {
  await using fresh = await clientLab();
  await using lab = await clientLab();
  const { eth0 } = await linkIndexes(lab.client);
  await shell(lab.client, UPSTREAM.replaceAll("INDEX", String(eth0)));
  assert.equal(await isClient({ netns: lab.netns }), true);
  const before = await linkIndexes(lab.client);
  const { lost, sent } = await lostMeanwhile(lab, "ipv4", async () => {
    await lab.apply([EGRESS]);
  });
  assert.ok(sent > 0);
  assert.equal(lost, 0);
  await fresh.apply([EGRESS]);
  assert.equal(await lab.state(), await fresh.state());
  const { "fou-dummy": marker, ...rest } = before;
  assert.ok(marker !== undefined);
  assert.deepEqual(await linkIndexes(lab.client), rest);
  assert.deepEqual((await lab.apply([EGRESS])).changes, []);
  assert.equal(await clearClient({ netns: lab.netns }), true);
  assert.equal(await lab.state(), await bareState());
});

/** What a pod shows that never was a client. */
async function bareState(): Promise<string> {
  await using lab = await clientLab();
  return await lab.state();
}

Deno.test("the mode of the source port is changed in place, under traffic", async () => {
  await using lab = await clientLab();
  await lab.apply([EGRESS]);
  const indexes = await linkIndexes(lab.client);
  for (const family of FAMILIES) {
    const { sent, lost } = await lostMeanwhile(lab, family, async () => {
      for (const sourcePortAuto of [false, true, false]) {
        await lab.apply([{ ...EGRESS, sourcePortAuto }]);
      }
    });
    assert.ok(sent > 0);
    assert.equal(lost, 0, `${lost} of ${sent} lost`);
    assert.match(await lab.state(), LINKS[family](String(PORT)));
  }
  assert.deepEqual(await linkIndexes(lab.client), indexes);
});

Deno.test("originating-only is switched on and off under the pod's own traffic, without a lost packet", async () => {
  await using lab = await clientLab();
  await lab.apply([EGRESS]);
  for (const family of FAMILIES) {
    const { sent, lost } = await lostMeanwhile(lab, family, async () => {
      for (const originatingOnly of [true, false, true]) {
        await lab.apply([EGRESS], { originatingOnly });
      }
    });
    assert.ok(sent > 0);
    assert.equal(lost, 0, `${lost} of ${sent} lost`);
  }
});

for (const sourcePortAuto of [true, false]) {
  const port = sourcePortAuto ? "automatic" : "fixed";
  Deno.test(`a client with ${port} source port comes to choose its gateway, and leaves it to the Service again, without a lost packet`, async () => {
    await using lab = await clientLab();
    const egress = { ...EGRESS, sourcePortAuto };
    await lab.apply([egress]);
    const service = await lab.state();
    const ready = directGatewayFor(EVERYWHERE, { sourcePortAuto });
    for (const family of FAMILIES) {
      const { sent, lost } = await lostMeanwhile(lab, family, async () => {
        for (const each of [ready, { ...ready, direct: [] }, ready, egress]) {
          await lab.apply([each]);
          assert.deepEqual((await lab.apply([each])).changes, []);
        }
      });
      assert.ok(sent > 0);
      assert.equal(lost, 0, `${lost} of ${sent} lost`);
    }
    assert.equal(await lab.state(), service);
  });
}

Deno.test("a client that chooses does not need the Service, and does not track the tunnel", async () => {
  await using lab = await clientLab({ servers: true });
  // Nobody has this cluster address.
  const service = {
    ipv4: Address.parse("10.96.0.99"),
    ipv6: Address.parse("fd96::99"),
  };
  await lab.apply([directGatewayFor(EVERYWHERE, { service })]);
  for (const family of FAMILIES) {
    const seen = await lab.lab.ask(lab.client, family, 100_000);
    assert.equal(seen, ADDRESSES.gateway[family]);
    // In fragments, each in a datagram of its own; the first answer may be too large on its way back.
    const large = ["-c3", "-i0.2", "-W10", "-s", "3000"];
    await lab.client.exec("ping", ...large, ADDRESSES.outside[family]);
  }
  using conntrack = ConntrackSocket.open({ netns: lab.netns });
  const [marks, ports]: [Set<number>, Set<number>] = [new Set(), new Set()];
  await conntrack.visit(({ mark, originalDestinationPort }) => {
    marks.add(mark);
    ports.add(originalDestinationPort);
  });
  assert.equal(ports.has(PORT), false);
  for (const gateway of Object.values(addressesOf("gateway"))) {
    assert.ok(marks.has(gatewayMark(gateway)));
  }
});

Deno.test("W38: a changed cluster address is followed under traffic, without a lost packet", async () => {
  await using lab = await clientLab();
  await lab.apply([EGRESS]);
  const moved = { ...EGRESS, service: SERVICES[1] };
  for (const family of FAMILIES) {
    const { sent, lost } = await lostMeanwhile(lab, family, async () => {
      for (const egress of [moved, EGRESS, moved]) await lab.apply([egress]);
    });
    assert.ok(sent > 0);
    assert.equal(lost, 0, `${lost} of ${sent} lost`);
  }
  assert.doesNotMatch(await lab.state(), /fou4_0a60000a|fou6_0a3cb378/);
  assert.match(await lab.state(), /^fou4_0a60000b@/m);
});

Deno.test("while a gateway is unavailable its destinations are refused quickly, and nothing is sent", async () => {
  await using lab = await clientLab({ servers: true });
  await lab.apply([EGRESS]);
  const indexes = await linkIndexes(lab.client);
  for (const family of FAMILIES) await lab.lab.ask(lab.client, family);
  const before = await counted(lab.server);
  await lab.apply([{ ...EGRESS, available: [] }]);
  await shell(lab.client, COUNT_LEAVING);
  for (const family of FAMILIES) {
    const host = ADDRESSES.outside[family];
    const started = performance.now();
    const tried = await lab.client.tryExec(
      "bash",
      "-c",
      `: < /dev/tcp/${host}/80`,
    );
    assert.ok(performance.now() - started < 60_000);
    assert.match(tried.stderr, /No route to host/);
  }
  assert.deepEqual(await counted(lab.server), before);
  assert.match(
    await shell(lab.client, "nft list table inet leaving"),
    /packets 0 bytes 0/,
  );
  await lab.apply([EGRESS]);
  for (const family of FAMILIES) await lab.lab.ask(lab.client, family);
  assert.deepEqual(await linkIndexes(lab.client), indexes);
});

/** What goes out by eth0 to outside, wrapped or not. */
const COUNT_LEAVING = `nft -f - <<END
table inet leaving {
  chain postrouting {
    type filter hook postrouting priority 0
    oifname eth0 meta l4proto { tcp, udp } counter
  }
}
END`;

Deno.test("a tunnel that is set down or gone refuses, and comes back with the next call", async () => {
  await using lab = await clientLab();
  await lab.apply([EGRESS]);
  const wanted = await lab.state();
  for (const damage of ["set fou4_0a60000a down", "delete fou4_0a60000a"]) {
    await shell(lab.client, `ip link ${damage}`);
    const { stderr } = await lab.client.tryExec(
      "bash",
      "-c",
      `: < /dev/tcp/${ADDRESSES.outside.ipv4}/80`,
    );
    assert.match(stderr, /No route to host/);
    await lab.apply([EGRESS]);
    assert.equal(await lab.state(), wanted);
    await lab.client.exec("ping", "-c1", "-w20", ADDRESSES.outside.ipv4);
  }
});

Deno.test("W49: what no gateway sent is not unpacked, but counted, with UDP around it or without", async () => {
  await using lab = await clientLab();
  await lab.apply([EGRESS]);
  for (const family of FAMILIES) {
    const [client, outside] = [addressesOf("client"), addressesOf("outside")];
    const request = echoRequest(outside[family], client[family]);
    const to = { address: ADDRESSES.client[family], port: PORT };
    const before = await received(lab);
    await sendDatagram(lab.lab.stranger, to, request);
    await shell(lab.lab.stranger, PLAIN[family]);
    const foreign = before.foreign + 2;
    await eventually("them to be counted", async () => {
      assert.deepEqual(await received(lab), { ...before, foreign });
      return true;
    });
    // The same from the gateway is unpacked.
    await sendDatagram(lab.lab.gateway, to, request);
    await eventually(
      "it to be unpacked",
      async () => (await received(lab)).unpacked === before.unpacked + 1,
    );
  }
});

/** An echo request in a packet of its own family, as anybody can send it. */
const PLAIN: Readonly<Record<Family, string>> = {
  ipv4: `
    ip link add forge type ipip local ${ADDRESSES.stranger.ipv4} remote ${ADDRESSES.client.ipv4}
    ip link set forge up
    ip route add 192.0.2.1/32 dev forge
    ping -c1 -W1 192.0.2.1 || true`,
  ipv6: `
    ip link add forge6 type ip6tnl mode ip6ip6 encaplimit none \\
      local ${ADDRESSES.stranger.ipv6} remote ${ADDRESSES.client.ipv6}
    ip link set forge6 addrgenmode none
    ip link set forge6 up
    ip -6 route add 2001:db8:1::1/128 dev forge6
    ping -c1 -W1 2001:db8:1::1 || true`,
};

/** How much the client refused, and how much its receivers unpacked. */
async function received(
  { client }: ClientLab,
): Promise<{ readonly foreign: number; readonly unpacked: number }> {
  const text = await shell(client, "nft list counter inet coil foreign_fou");
  let unpacked = 0;
  for (const { ifname, stats64 } of await client.ipJson("-s", "link")) {
    if (!/^coil_ipip/.test(String(ifname))) continue;
    const { rx } = stats64 as { readonly rx: { readonly packets: number } };
    unpacked += rx.packets;
  }
  return { foreign: Number(/packets (\d+)/.exec(text)?.[1]), unpacked };
}

Deno.test("another UDP port takes the place of the first, which is free again", async () => {
  await using lab = await clientLab();
  await lab.apply([EGRESS]);
  await lab.apply([EGRESS], { port: 5556 });
  const state = await lab.state();
  assert.deepEqual(state.match(/^port .*$/gm), [
    "port 5556 ipproto 4",
    "port 5556 ipproto 41 -6",
  ]);
  assert.match(state, /encap-dport 5556/);
  assert.doesNotMatch(state, /5555/);
});

Deno.test("a UDP port that another program has is an error that says so, and packets are refused", async () => {
  await using lab = await clientLab();
  await shell(lab.client, "ip fou add port 5555 gue");
  await assert.rejects(
    lab.apply([EGRESS]),
    /another socket of this network namespace/,
  );
  const { stderr } = await lab.client.tryExec(
    "bash",
    "-c",
    `: < /dev/tcp/${ADDRESSES.outside.ipv4}/80`,
  );
  assert.match(stderr, /No route to host/);
  await shell(lab.client, "ip fou del port 5555");
  await lab.apply([EGRESS]);
  await lab.client.exec("ping", "-c1", "-w20", ADDRESSES.outside.ipv4);
});

Deno.test("tunnels and FoU ports of others are untouched, from first to last", async () => {
  await using lab = await clientLab();
  await shell(
    lab.client,
    `ip fou add port 6666 ipproto 4
     ip fou add port 6667 ipproto 41 -6
     ip link add mine type ipip local 10.1.1.2 remote 192.0.2.9 encap fou encap-sport 6666 encap-dport 6666
     ip link add fou-dummy type bridge
     ip link set mine up`,
  );
  const others = async () =>
    (await lab.state()).split("\n").filter((line) => /666|mine/.test(line))
      .concat(String((await linkIndexes(lab.client))["fou-dummy"]));
  const before = await others();
  await lab.apply([EGRESS]);
  assert.deepEqual(await others(), before);
  await lab.apply([gatewayFor(["203.0.113.0/24"])], { port: 5556 });
  assert.deepEqual(await others(), before);
  assert.equal(await clearClient({ netns: lab.netns }), true);
  assert.deepEqual(await others(), before);
});

Deno.test("a gateway's own namespace is refused, and never cleared", async () => {
  await using lab = await clientLab();
  const { netns } = lab.lab;
  assert.equal(await isClient({ netns }), false);
  assert.equal(await clearClient({ netns }), false);
  await lab.apply([EGRESS]);
  await lab.client.exec("ping", "-c1", "-w20", ADDRESSES.outside.ipv4);
});

/** Some of a gateway's pods. */
const GATEWAYS = [
  ...Object.values(addressesOf("gateway")),
  Address.parse("10.1.4.2"),
];

/** Egresses as they may be, few enough that two of them often have something in common. */
const EGRESSES: fc.Arbitrary<readonly ClientGateway[]> = fc.uniqueArray(
  fc.record({
    name: fc.constantFrom("a/a", "b/b", "c/c"),
    service: fc.constantFrom(
      ...SERVICES,
      { ipv4: Address.parse("10.96.0.12") },
      { ipv6: Address.parse("fd96::12") },
      {},
    ),
    destinations: fc.subarray(
      [
        ...EVERYWHERE,
        "10.5.0.0/16",
        "203.0.113.9/32",
        "2001:db8:9::/48",
        "fd05::/16",
      ],
      { minLength: 1 },
    ),
    sourcePortAuto: fc.boolean(),
    available: fc.subarray([...FAMILIES]),
    senders: fc.subarray(GATEWAYS),
    direct: fc.option(fc.subarray(GATEWAYS), { nil: undefined }),
    failurePolicy: fc.constantFrom("Closed" as const, "Open" as const),
  }).map(({ destinations, direct, ...changes }) => {
    const gateway = gatewayFor(destinations, changes);
    return direct === undefined ? gateway : { ...gateway, direct };
  }),
  { maxLength: 3, selector: ({ name }) => name },
);
const PLANS = fc.record({
  gateways: EGRESSES,
  originatingOnly: fc.boolean(),
  port: fc.constantFrom(5555, 5556),
  mtu: fc.constantFrom(1500, 1400),
}).map(({ gateways, ...changes }) => planOf(gateways, changes));

const IPV6_SERVICE = Address.parse(ADDRESSES.service.ipv6);

/** The set of the second family is made after that of the first, or together with it. */
const SETS_IN_OTHER_ORDER: [ClientPlan, ClientPlan, number] = [
  planOf([gatewayFor(EVERYWHERE, { service: { ipv6: IPV6_SERVICE } })]),
  planOf([gatewayFor(EVERYWHERE)]),
  99,
];

Deno.test("KN-14: what a plan makes does not depend on what was there, be it another plan cut off at any step", async () => {
  await using fresh = await clientLab();
  await using used = await clientLab();
  const bare = await fresh.state();
  await fc.assert(
    fc.asyncProperty(PLANS, PLANS, fc.nat(9), async (first, second, steps) => {
      await applyCut(second, { netns: fresh.netns, steps: Infinity });
      await applyCut(first, { netns: used.netns, steps });
      await applyCut(second, { netns: used.netns, steps: Infinity });
      assert.equal(await used.state(), await fresh.state());
      const again = await applyCut(second, {
        netns: used.netns,
        steps: Infinity,
      });
      assert.equal(again, false);
      await applyCut(planOf([]), { netns: fresh.netns, steps });
      await clearClient({ netns: fresh.netns });
      assert.equal(await fresh.state(), bare);
    }),
    { numRuns: 10, endOnFailure: true, examples: [SETS_IN_OTHER_ORDER] },
  );
});
