import assert from "node:assert/strict";
import { FAMILIES, valuesOf } from "../../lib/inet/mod.ts";
import { clientLimits, type ServerRequest } from "../../lib/egress/mod.ts";
import { PROBE_SOURCE } from "../../lib/egress/kernel/path_probe.ts";
import { ProbeLine } from "../../lib/egress/probing/probe_line.ts";
import {
  type DatagramSocket,
  Netns,
  openDatagramSocket,
} from "../../lib/linux/mod.ts";
import { udpPacket } from "../../lib/probe/mod.ts";
import { eventually } from "../lab/wait.ts";
import { formatServerPlan } from "../lab/plan_text/egress_gateway.ts";
import type { TempNetns } from "../netns/testing.ts";
import {
  ADDRESSES,
  addressesOf,
  CLIENTS,
  echoRequest,
  type EgressLab,
  egressLab,
  expectCounted,
  type HandMadeClient,
  makeClient,
  OURS,
  planOf,
  PORT,
  sendDatagram,
  shell,
  UPSTREAM,
} from "./egress_server_lab.ts";

const GATEWAY = addressesOf("gateway");

const CONNTRACK_MAX = Number(
  await Deno.readTextFile("/proc/sys/net/netfilter/nf_conntrack_max"),
);

/** More probes than one node may send at once. */
const FLOOD = 400;

const VARIANTS: readonly (readonly [string, Partial<ServerRequest>])[] = [
  ["dual stack", {}],
  ["dual stack, fixed source port", { sourcePortAuto: false }],
  ["IPv4", { addresses: { ipv4: GATEWAY.ipv4 } }],
  ["IPv6", { addresses: { ipv6: GATEWAY.ipv6 } }],
];

for (const [name, changes] of VARIANTS) {
  Deno.test(`KN-10 KN-11: a gateway of ${name} is in the kernel as planned, however often it is opened`, async () => {
    await using lab = await egressLab();
    const server = await lab.open(changes);
    const { added, skipped } = await server.setClients(CLIENTS);
    const served = valuesOf(planOf(changes).families).map((f) => f.family);
    assert.deepEqual(added.map(({ family }) => family), served);
    assert.deepEqual(
      skipped.map(({ address, reason }) => `${address.family} ${reason}`),
      FAMILIES.filter((f) => !served.includes(f)).map((f) => `${f} family`),
    );
    const first = await kernelState(lab.gateway);
    assert.deepEqual(first, expectedState(changes));
    assert.deepEqual(await server.setClients(CLIENTS), {
      added: [],
      removed: [],
      skipped,
    });
    await lab.open(changes);
    assert.deepEqual(await kernelState(lab.gateway), first);
  });
}

/** What `ip` and `nft` show of a gateway. */
async function kernelState(
  netns: TempNetns,
): Promise<Record<string, string[]>> {
  // One process of all: the virtual machine takes long to start them.
  const text = await shell(netns, KERNEL_STATE.join("\necho ---\n"));
  const [rules = [], routes = [], ports = [], links = [], table, settings] =
    text.split("---\n").map((part) =>
      part.split("\n").map((line) => line.trim()).filter((line) => line !== "")
    );
  return {
    rules: rules.map((line) => line.replace(/\s+/g, " ")),
    routes: routes.map((line) => line.replace(/ pref medium$/, "")),
    ports: ports.toSorted(),
    links: links.filter((line) => /^\d|^ip/.test(line))
      .map((line) => line.replaceAll(/^\d+: | addrgenmode.*/g, "")),
    table: table ?? [],
    settings: settings ?? [],
  };
}

const KERNEL_STATE = [
  "ip rule show pref 2000; ip -6 rule show pref 2000",
  `ip -4 route show table 118 2>/dev/null || true
   ip -6 route show table 118 2>/dev/null || true`,
  "ip fou show",
  `for link in $(ip -o link | grep -o 'coil_fou[0-9]'); do
     ip -d link show dev $link
   done`,
  "nft list table inet coil",
  "cat /proc/sys/net/ipv4/ip_forward /proc/sys/net/ipv6/conf/all/forwarding",
];

function expectedState(
  changes: Partial<ServerRequest>,
): Record<string, unknown> {
  const plan = planOf(changes);
  const has4 = plan.families.ipv4 !== undefined;
  const has6 = plan.families.ipv6 !== undefined;
  const only = (wanted: boolean, ...lines: string[]) => wanted ? lines : [];
  const sourcePort = changes.sourcePortAuto === false ? PORT : "auto";
  const rule = "2000: from all iif eth0 lookup 118";
  const limits = clientLimits(undefined, CONNTRACK_MAX);
  const text = formatServerPlan(plan, CLIENTS, limits);
  const table = /^table [^]*?^\}$/m.exec(text)?.[0] ?? "";
  const flags = "<NOARP,UP,LOWER_UP>";
  return {
    rules: [...only(has4, rule), ...only(has6, rule)],
    routes: [
      ...only(
        has4,
        "unreachable default proto 30 metric 4096",
        "10.1.1.2 dev coil_fou4 proto 30 scope link",
      ),
      ...only(
        has6,
        "fd01:1::2 dev coil_fou6 proto 30 metric 1024",
        "unreachable default dev lo proto 30 metric 4096",
      ),
    ],
    ports: [
      ...only(has4, `port ${PORT} ipproto 4`),
      ...only(has6, `port ${PORT} ipproto 41 -6`),
    ],
    links: [
      ...only(
        has4,
        `coil_fou4@NONE: ${flags} mtu 1472 qdisc noqueue state UNKNOWN mode DEFAULT group default qlen 1000`,
        `ipip ipip remote any local 10.1.2.2 ttl 225 pmtudisc encap fou encap-sport ${sourcePort} encap-dport ${PORT} encap-csum noencap-csum6 noencap-remcsum`,
      ),
      ...only(
        has6,
        `coil_fou6@NONE: ${flags} mtu 1452 qdisc noqueue state UNKNOWN mode DEFAULT group default qlen 1000`,
        `ip6tnl ip6ip6 remote any local fd01:2::2 hoplimit 225 encaplimit none tclass 0x00 flowlabel 0x00000 encap fou encap-sport ${sourcePort} encap-dport ${PORT} encap-csum encap-csum6 noencap-remcsum`,
      ),
    ],
    table: table.split("\n").map((line) => line.trim())
      .filter((line) => line !== ""),
    settings: [has4 ? "1" : "0", has6 ? "1" : "0"],
  };
}

const PEERS: readonly (readonly [string, HandMadeClient, boolean])[] = [
  ["as ours", OURS, true],
  ["as ours with a fixed port", { ...OURS, sourcePort: String(PORT) }, false],
  ["as upstream's", UPSTREAM, false],
];

for (const [name, peer, sourcePortAuto] of PEERS) {
  Deno.test(`KN-15: a client made ${name} reaches outside with the gateway's address`, async () => {
    await using lab = await egressLab({ servers: true });
    const server = await lab.open({ sourcePortAuto });
    await makeClient(lab.client, peer);
    await server.setClients(CLIENTS);
    for (const family of FAMILIES) {
      const seen = await lab.ask(lab.client, family, 200_000);
      assert.equal(seen, ADDRESSES.gateway[family]);
      await ping(lab.client, family, ["-c2", "-s1400"]);
    }
    await expectCounted(server, {
      "masqueraded ipv4": 2,
      "masqueraded ipv6": 2,
    });
  });
}

/** Pings outside and returns what `ping` says; fails unless all is answered. */
async function ping(
  from: TempNetns,
  family: "ipv4" | "ipv6",
  args: readonly string[],
): Promise<string> {
  const words = ["-i0.2", "-W30", ...args, ADDRESSES.outside[family]];
  return await from.exec("ping", ...words);
}

Deno.test("W49: what no client sent is not passed on, but counted", async () => {
  await using lab = await egressLab();
  const server = await lab.open();
  await makeClient(lab.client, OURS);
  await server.setClients(CLIENTS);
  await watchOutside(lab);
  for (const family of FAMILIES) {
    const target = addressesOf("outside")[family];
    const gateway = { address: ADDRESSES.gateway[family], port: PORT };
    const own = addressesOf("client")[family];
    const foreign = addressesOf("stranger")[family];
    // A stranger, as itself and in the client's name; a client in a stranger's name.
    for (const source of [foreign, own]) {
      await sendDatagram(lab.stranger, gateway, echoRequest(source, target));
    }
    await sendDatagram(lab.client, gateway, echoRequest(foreign, target));
    // The datagram of a stranger to the cluster address arrives here all the same.
    const service = { address: ADDRESSES.service[family], port: PORT };
    await sendDatagram(lab.stranger, service, echoRequest(foreign, target));
  }
  await expectCounted(server, {
    "foreignFou ipv4": 4,
    "foreignFou ipv6": 4,
  });
  assert.deepEqual(await seenOutside(lab), []);
  // The oracle works: the same datagram with the right source is passed on.
  for (const family of FAMILIES) {
    const own = addressesOf("client")[family];
    const target = addressesOf("outside")[family];
    const gateway = { address: ADDRESSES.gateway[family], port: PORT };
    await sendDatagram(lab.client, gateway, echoRequest(own, target));
  }
  await eventually("them outside", async () => {
    assert.deepEqual(await seenOutside(lab), [
      `icmp from ${ADDRESSES.gateway.ipv4}`,
      `icmp from ${ADDRESSES.gateway.ipv6}`,
    ]);
    return true;
  });
});

Deno.test("a node's probe comes back to it, from the gateway's address, and goes nowhere else", async () => {
  await using lab = await egressLab();
  const server = await lab.open();
  await server.setClients(CLIENTS);
  await watchOutside(lab);
  using node = Netns.open(lab.stranger.path);
  for (const family of FAMILIES) {
    const gateway = addressesOf("gateway")[family];
    using line = new ProbeLine(
      gateway,
      PORT,
      (peer, options) => openDatagramSocket(peer, { ...options, netns: node }),
    );
    line.send();
    await eventually(`an answer of ${gateway}`, () => line.takeAnswers());
    // A probe to another address than the sender's is none.
    for (const host of ["outside", "client", "gateway"] as const) {
      const forged = echoRequest(
        PROBE_SOURCE[family],
        addressesOf(host)[family],
      );
      const to = { address: ADDRESSES.gateway[family], port: PORT };
      await sendDatagram(lab.stranger, to, forged);
    }
    // Nor is a packet of another kind to the sender.
    const to = { address: ADDRESSES.gateway[family], port: PORT };
    const own = addressesOf("stranger")[family];
    await sendDatagram(
      lab.stranger,
      to,
      echoRequest(PROBE_SOURCE[family], own),
    );
    // One that floods its own probes gets some of them back only.
    let answers = 0;
    for (let i = 0; i < FLOOD; i++) {
      line.send();
      if (line.takeAnswers()) answers++;
    }
    assert.ok(answers < FLOOD, `${answers} answers`);
  }
  await expectCounted(server, {
    "foreignFou ipv4": 3,
    "foreignFou ipv6": 3,
    "invalid ipv4": 1,
    "invalid ipv6": 1,
  });
  assert.deepEqual(await seenOutside(lab), []);
  // By both of its addresses.
  assert.equal(await server.probingNodes(), 1);
  // Neither takes room in the table of connections.
  assert.equal((await server.conntrack()).entries, 0);
});

Deno.test("a client that sends by the gateway to a node's probing socket fills nothing there", async () => {
  await using lab = await egressLab();
  const server = await lab.open();
  await makeClient(lab.client, OURS);
  await server.setClients(CLIENTS);
  using node = Netns.open(lab.stranger.path);
  for (const family of FAMILIES) {
    const peer = { address: addressesOf("gateway")[family], port: PORT };
    const from = { address: addressesOf("client")[family], port: PORT };
    const to = { address: ADDRESSES.gateway[family], port: PORT };
    const forge = async ({ local }: DatagramSocket) => {
      const payload = new Uint8Array(16);
      const inner = udpPacket({ from, to: local, payload });
      await sendDatagram(lab.client, to, inner);
    };
    const buffer = new Uint8Array(100);
    // Translated, it comes from the socket's peer.
    using open = openDatagramSocket(peer, { netns: node });
    await forge(open);
    await eventually(
      `a datagram of a client by ${peer.address}`,
      () => open.receiveNow(buffer) === 16,
    );
    const opened: DatagramSocket[] = [];
    using line = new ProbeLine(peer.address, PORT, (peer, options) => {
      const socket = openDatagramSocket(peer, { ...options, netns: node });
      opened.push(socket);
      return socket;
    });
    line.send();
    await eventually("an answer", () => line.takeAnswers());
    const [socket] = opened;
    assert.ok(socket !== undefined);
    await forge(socket);
    // What is sent after it is not before it.
    await forge(open);
    await eventually(
      "a datagram after that",
      () => open.receiveNow(buffer) === 16,
    );
    assert.equal(socket.receiveNow(buffer), undefined);
  }
});

Deno.test("W49: nor is plain IP in IP, which the tunnel devices would unpack too", async () => {
  await using lab = await egressLab();
  const server = await lab.open();
  await server.setClients(CLIENTS);
  await watchOutside(lab);
  const { stranger, gateway, outside } = ADDRESSES;
  await shell(
    lab.stranger,
    `ip link add plain4 type ipip local ${stranger.ipv4} remote ${gateway.ipv4}
     ip link add plain6 type ip6tnl mode ip6ip6 local ${stranger.ipv6} remote ${gateway.ipv6} encaplimit none
     ip link set plain6 addrgenmode none
     ip link set plain4 up
     ip link set plain6 up
     ip route add ${outside.ipv4}/32 dev plain4 src ${stranger.ipv4}
     ip -6 route add ${outside.ipv6}/128 dev plain6 src ${stranger.ipv6}
     ping -c1 -W1 ${outside.ipv4} || true
     ping -c1 -W1 ${outside.ipv6} || true`,
  );
  await expectCounted(server, {
    "foreignFou ipv4": 1,
    "foreignFou ipv6": 1,
  });
  assert.deepEqual(await seenOutside(lab), []);
});

Deno.test("W49: a tunnel inside the tunnel does not help a client to another source", async () => {
  await using lab = await egressLab();
  const server = await lab.open();
  await makeClient(lab.client, OURS);
  await server.setClients(CLIENTS);
  await watchOutside(lab);
  const { ipv4: own } = addressesOf("client");
  const { ipv4: gateway } = addressesOf("gateway");
  const forged = echoRequest(
    addressesOf("stranger").ipv4,
    addressesOf("outside").ipv4,
  );
  const inner = udpPacket({
    from: { address: own, port: 40000 },
    to: { address: gateway, port: PORT },
    payload: forged,
  });
  await sendDatagram(
    lab.client,
    { address: ADDRESSES.gateway.ipv4, port: PORT },
    inner,
  );
  await expectCounted(server, { "foreignFou ipv4": 1 });
  assert.deepEqual(await seenOutside(lab), []);
});

Deno.test("nobody outside opens a connection to a client through the gateway", async () => {
  await using lab = await egressLab();
  const server = await lab.open();
  await makeClient(lab.client, OURS);
  await server.setClients(CLIENTS);
  const { client, gateway } = ADDRESSES;
  // The router sends what is for the client to the gateway, unless it comes from there.
  await shell(
    lab.router,
    `ip rule add iif outside lookup 7
     ip -6 rule add iif outside lookup 7
     ip route add ${client.ipv4}/32 via ${gateway.ipv4} table 7
     ip -6 route add ${client.ipv6}/128 via ${gateway.ipv6} table 7`,
  );
  for (const address of Object.values(client)) {
    const { code } = await lab.outside.tryExec("ping", "-c1", "-W1", address);
    assert.equal(code, 1);
  }
  await expectCounted(server, {
    "unsolicited ipv4": 1,
    "unsolicited ipv6": 1,
  });
});

/** Counts echo requests outside, by the address of who sent them. */
async function watchOutside(lab: EgressLab): Promise<void> {
  await shell(
    lab.outside,
    `nft -f - <<END
table inet seen {
  set ipv4 { type ipv4_addr; flags dynamic; }
  set ipv6 { type ipv6_addr; flags dynamic; }
  chain input {
    type filter hook input priority filter
    icmp type echo-request update @ipv4 { ip saddr }
    icmpv6 type echo-request update @ipv6 { ip6 saddr }
  }
}
END`,
  );
}

async function seenOutside({ outside }: EgressLab): Promise<string[]> {
  const text = await outside.exec("nft", "list", "table", "inet", "seen");
  const elements = text.matchAll(/elements = \{ ([^}]*) \}/g);
  return [...elements].flatMap(([, list]) => (list ?? "").split(/,\s*/))
    .map((address) => `icmp from ${address}`);
}
