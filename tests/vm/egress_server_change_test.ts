import assert from "node:assert/strict";
import { Address, FAMILIES } from "../../lib/inet/mod.ts";
import { EgressServer } from "../../lib/egress/mod.ts";
import { countEchoes } from "../netns/echoes.ts";
import type { TempNetns } from "../netns/testing.ts";
import {
  ADDRESSES,
  addressesOf,
  CLIENTS,
  egressLab,
  makeClient,
  OURS,
  planOf,
  PORT,
  shell,
  UPSTREAM,
} from "./egress_server_lab.ts";

Deno.test("a gateway that is opened again, with another port or mode, keeps what still holds", async () => {
  await using lab = await egressLab({ servers: true });
  const first = await lab.open();
  await makeClient(lab.client, OURS);
  await first.setClients(CLIENTS);
  await lab.ask(lab.client, "ipv4");
  const before = await indexOf(lab.gateway, "coil_fou4");
  first[Symbol.dispose]();

  const fixed = await lab.open({ sourcePortAuto: false });
  assert.equal(fixed.clientCount, CLIENTS.length);
  assert.equal(await indexOf(lab.gateway, "coil_fou4"), before);
  assert.match(
    await lab.gateway.ip("-d", "link", "show", "coil_fou4"),
    /mtu 1472 [^]* encap-sport 5555 encap-dport 5555 encap-csum/,
  );
  assert.match(
    await lab.gateway.ip("-d", "link", "show", "coil_fou6"),
    /mtu 1452 [^]* encap-sport 5555 /,
  );
  for (const family of FAMILIES) {
    assert.equal(await lab.ask(lab.client, family), ADDRESSES.gateway[family]);
  }
  const counters = await fixed.readCounters();
  assert.equal(counters.masqueraded.ipv4?.packets, 2n, "counters go on");

  await lab.open({ port: 5556 });
  assert.deepEqual(await portsOf(lab.gateway), ["4 5556", "41 5556"]);

  const single = await lab.open({
    addresses: { ipv4: addressesOf("gateway").ipv4 },
  });
  assert.equal(single.clientCount, 1);
  assert.deepEqual(await portsOf(lab.gateway), [`4 ${PORT}`]);
  assert.deepEqual(await routesOf(lab.gateway), [
    "10.1.1.2 dev coil_fou4 proto 30 scope link",
    "unreachable default proto 30 metric 4096",
  ]);
  assert.deepEqual(await linksOf(lab.gateway), ["coil_fou4"]);
  assert.equal(await lab.gateway.ip("-6", "rule", "show", "pref", "2000"), "");
});

Deno.test("W34: a gateway that was left half made, or spoilt, is made whole", async () => {
  await using lab = await egressLab({ servers: true });
  await makeClient(lab.client, OURS);
  const halfMade = [
    "ip link add coil_fou4 type bridge",
    "ip link add coil_fou4 type ipip local 10.9.9.9 remote any ttl 3",
    "ip rule add pref 2000 iif eth0 lookup 118",
    "ip fou add port 5555 ipproto 4",
    "nft add table inet coil; nft add chain inet coil guard '{ type filter hook input priority 0; }'",
  ];
  const spoilt = [
    "ip link set coil_fou4 down mtu 1000",
    "ip rule del pref 2000",
    "ip route flush table 118",
    "nft delete table inet coil",
    "ip link delete coil_fou6",
    "ip fou del port 5555 ipproto 4",
  ];
  for (const spoiler of [...halfMade, ...spoilt]) {
    if (halfMade.includes(spoiler)) {
      using whole = await EgressServer.open(planOf(), { netns: lab.netns });
      await whole.clear();
    }
    await shell(lab.gateway, spoiler);
    using server = await EgressServer.open(planOf(), { netns: lab.netns });
    await server.setClients(CLIENTS);
    for (const family of FAMILIES) {
      const seen = await lab.ask(lab.client, family);
      assert.equal(seen, ADDRESSES.gateway[family], spoiler);
    }
  }
});

Deno.test("W34: an open gateway that others spoil is made whole by the next setClients()", async () => {
  await using lab = await egressLab({ servers: true });
  const server = await lab.open();
  await makeClient(lab.client, OURS);
  await server.setClients(CLIENTS);
  const whole = await settingsOf(lab.gateway);
  const spoilt = [
    "nft delete table inet coil",
    "nft flush table inet coil",
    "nft flush chain inet coil source_nat",
    "nft flush chain inet coil guard",
  ];
  for (const spoiler of spoilt) {
    await shell(lab.gateway, spoiler);
    assert.notEqual(await settingsOf(lab.gateway), whole, spoiler);
    await server.setClients(CLIENTS);
    assert.equal(await settingsOf(lab.gateway), whole, spoiler);
    for (const family of FAMILIES) {
      const seen = await lab.ask(lab.client, family);
      assert.equal(seen, ADDRESSES.gateway[family], spoiler);
    }
  }
});

Deno.test("W34: changeClients() fails without the table, and makes all whole when it is called again", async () => {
  await using lab = await egressLab({ servers: true });
  const server = await lab.open();
  await makeClient(lab.client, OURS);
  await server.setClients([]);
  await shell(lab.gateway, "nft delete table inet coil");
  const change = { add: CLIENTS };
  await assert.rejects(server.changeClients(change), { code: "ENOENT" });
  await server.changeClients(change);
  assert.equal(server.clientCount, CLIENTS.length);
  for (const family of FAMILIES) {
    assert.equal(await lab.ask(lab.client, family), ADDRESSES.gateway[family]);
  }
});

Deno.test("setClients() repairs what others did to clients", async () => {
  await using lab = await egressLab({ servers: true });
  const server = await lab.open();
  await makeClient(lab.client, OURS);
  await server.setClients(CLIENTS);
  await shell(
    lab.gateway,
    `ip route delete ${ADDRESSES.client.ipv4} table 118
     nft flush set inet coil clients6
     ip -6 route add fd01:1::77 dev coil_fou6 table 118 proto 30`,
  );
  const { removed } = await server.setClients(CLIENTS);
  assert.deepEqual(removed.map(String), ["fd01:1::77"]);
  for (const family of FAMILIES) {
    assert.equal(await lab.ask(lab.client, family), ADDRESSES.gateway[family]);
  }
});

Deno.test("W35: who is no client any more is cut off, and its connections are forgotten", async () => {
  await using lab = await egressLab({ servers: true });
  const server = await lab.open();
  await makeClient(lab.client, OURS);
  await server.setClients([...CLIENTS, Address.parse("10.1.1.3")]);
  for (const family of FAMILIES) await lab.ask(lab.client, family);
  assert.equal((await server.flows()).flows, 2);
  const { removed } = await server.changeClients({ remove: CLIENTS });
  assert.deepEqual(removed, CLIENTS);
  assert.equal((await server.conntrack()).entries, 0);
  assert.deepEqual(await routesOf(lab.gateway), [
    "10.1.1.3 dev coil_fou4 proto 30 scope link",
    "unreachable default dev lo proto 30 metric 4096 pref medium",
    "unreachable default proto 30 metric 4096",
  ]);
  for (const address of Object.values(ADDRESSES.outside)) {
    const { code } = await lab.client.tryExec("ping", "-c1", "-W1", address);
    assert.equal(code, 1);
  }
  await server.changeClients({ add: CLIENTS });
  for (const family of FAMILIES) {
    assert.equal(await lab.ask(lab.client, family), ADDRESSES.gateway[family]);
  }
});

Deno.test("a gateway made by upstream is taken over without a packet lost", async () => {
  await using lab = await egressLab({ servers: true });
  await makeUpstreamGateway(lab.gateway);
  await makeClient(lab.client, UPSTREAM);
  for (const family of FAMILIES) await lab.ask(lab.client, family);
  const pings = Object.values(ADDRESSES.outside).map((address) =>
    lab.client.exec("ping", "-i0.02", "-c150", "-W30", address)
  );
  await lab.client.exec("ping", "-c3", "-i0.1", ADDRESSES.outside.ipv4);
  const server = await lab.open({ sourcePortAuto: false });
  for (const text of await Promise.all(pings)) {
    assert.deepEqual(countEchoes(text), { sent: 150, lost: 0 });
  }
  assert.equal(server.clientCount, 2);
  assert.deepEqual(await linksOf(lab.gateway), ["coil_fou4", "coil_fou6"]);
  assert.deepEqual(await routesOf(lab.gateway), [
    "10.1.1.2 dev coil_fou4 proto 30 scope link",
    "fd01:1::2 dev coil_fou6 proto 30 metric 1024 pref medium",
    "unreachable default dev lo proto 30 metric 4096 pref medium",
    "unreachable default proto 30 metric 4096",
  ]);
  const rules = await lab.gateway.ip("rule", "show", "pref", "2000");
  assert.equal(rules.trim().split("\n").length, 1, "the rule is not doubled");
  for (const family of FAMILIES) {
    assert.equal(await lab.ask(lab.client, family), ADDRESSES.gateway[family]);
  }
});

Deno.test("what is somebody else's stays, and clear() leaves only that", async () => {
  await using lab = await egressLab();
  await shell(
    lab.gateway,
    `nft add table inet other
     nft add table ip nat
     ip rule add pref 2000 from 192.0.2.1 lookup 118
     ip rule add pref 2001 iif eth0 lookup 118
     ip route add 192.0.2.0/24 via 10.1.2.1 table 118
     ip route add 192.0.2.7/32 via 10.1.2.1 table 118 proto static
     ip link add dummy7 type dummy
     ip link add tunnel7 type ipip local 10.1.2.2 remote 192.0.2.9
     ip fou add port 7777 ipproto 4`,
  );
  const before = await everything(lab.gateway);
  const server = await lab.open();
  await server.setClients(CLIENTS);
  await server.setClients([]);
  assert.notEqual(await everything(lab.gateway), before);
  await server.clear();
  assert.equal(await everything(lab.gateway), before);
});

async function everything(netns: TempNetns): Promise<string> {
  return await shell(
    netns,
    `nft list ruleset; ip rule; ip -6 rule; ip fou show | sort
     ip route show table 118; ip -6 route show table 118 2>/dev/null || true
     ip -o link show | grep -v tunl0 | grep -v ip6tnl0 | sed 's/^[0-9]*: //'`,
  );
}

/** All that makes a gateway, but for what it has counted, and the connections that it counts. */
async function settingsOf(netns: TempNetns): Promise<string> {
  return await shell(
    netns,
    `nft -s list ruleset | sed '/elements = .* ct count /d'
     ip rule; ip -6 rule; ip fou show | sort
     ip route show table 118 || true; ip -6 route show table 118 || true
     ip -o link show | grep -o 'coil_fou.*mtu [0-9]*' | sort`,
  );
}

/** As upstream Coil 2.15 with its nftables backend leaves it. */
async function makeUpstreamGateway(netns: TempNetns): Promise<void> {
  const { gateway, client } = ADDRESSES;
  const encap =
    `encap fou encap-sport ${PORT} encap-dport ${PORT} noencap-csum`;
  await shell(
    netns,
    `sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1 net.ipv4.conf.all.rp_filter=0
     ip link add fou-dummy type dummy
     ip link add egress-dummy type dummy
     ip fou add port ${PORT} ipproto 4
     ip fou add port ${PORT} ipproto 41 -6
     ip link add coil_ipip4 type ipip external
     ip link add coil_ipip6 type ip6tnl external
     ip link add fou4_0a010102 type ipip local ${gateway.ipv4} remote ${client.ipv4} ttl 225 ${encap}
     ip link add fou6_01234567 type ip6tnl mode ip6ip6 local ${gateway.ipv6} remote ${client.ipv6} \\
       encaplimit none hoplimit 225 ${encap} noencap-udp6-csum
     for link in coil_ipip4 coil_ipip6 fou4_0a010102 fou6_01234567; do ip link set $link up; done
     for family in -4 -6; do ip $family rule add pref 2000 iif eth0 lookup 118; done
     ip route add ${client.ipv4}/32 dev fou4_0a010102 table 118 proto 30
     ip -6 route add ${client.ipv6}/128 dev fou6_01234567 table 118 proto 30
     nft add table ip nat
     nft add chain ip nat POSTROUTING '{ type nat hook postrouting priority srcnat; }'
     nft add rule ip nat POSTROUTING ip saddr != ${gateway.ipv4} oifname eth0 counter masquerade
     nft add table ip6 nat
     nft add chain ip6 nat POSTROUTING '{ type nat hook postrouting priority srcnat; }'
     nft add rule ip6 nat POSTROUTING ip6 saddr != ${gateway.ipv6} oifname eth0 counter masquerade`,
  );
}

async function indexOf(netns: TempNetns, name: string): Promise<unknown> {
  const [link] = await netns.ipJson("link", "show", "dev", name);
  return link?.["ifindex"];
}

async function linksOf(netns: TempNetns): Promise<string[]> {
  const links = await netns.ipJson("link", "show");
  return links.map((link) => String(link["ifname"]))
    .filter((name) => /fou|coil|dummy/.test(name)).toSorted();
}

async function routesOf(netns: TempNetns): Promise<string[]> {
  const text = await shell(
    netns,
    `ip route show table 118
     ip -6 route show table 118 2>/dev/null || true`,
  );
  return text.split("\n").map((line) => line.trim())
    .filter((line) => line !== "").toSorted();
}

async function portsOf(netns: TempNetns): Promise<string[]> {
  const text = await netns.ip("fou", "show");
  return [...text.matchAll(/port (\d+) ipproto (\d+)/g)]
    .map(([, port, protocol]) => `${protocol} ${port}`).toSorted();
}
