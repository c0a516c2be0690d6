import assert from "node:assert/strict";
import { Prefix } from "../../lib/inet/mod.ts";
import type { Notification } from "../../lib/netlink/mod.ts";
import type { VpcHostSettings } from "../../lib/vpc/mod.ts";
import { SECONDARY, settingsOf } from "../../lib/vpc/host/testing.ts";
import { countEchoes } from "./echoes.ts";
import { shell } from "./egress_client_lab.ts";
import { routesOf } from "./podnet_testing.ts";
import { netnsTest, type TempNetns } from "./testing.ts";
import {
  METADATA,
  OUTSIDE,
  PEER,
  pings,
  PODS,
  type VpcLab,
  vpcLab,
  WAIT,
} from "./vpc_lab.ts";

const DUAL: VpcHostSettings = settingsOf({ families: ["ipv4", "ipv6"] });
const NOTHING = { changed: [], problems: [], links: new Set([2, 3]) };
const NONE_DROPPED = { by_primary: 0, by_secondary: 0, private: 0 };

/** The node configured, with nothing left to do. */
async function configured(settings: VpcHostSettings = DUAL): Promise<VpcLab> {
  const lab = await vpcLab();
  const { problems } = await lab.host.ensure(settings);
  assert.deepEqual(problems, []);
  return lab;
}

async function rulesOf(host: TempNetns): Promise<string[]> {
  const text = await host.ip("rule", "show") +
    await host.ip("-6", "rule", "show");
  return text.trim().split("\n").map((line) => line.replace(/\s+/g, " "))
    .filter((line) => !/^(0|3276[67]):/.test(line));
}

netnsTest(
  "vpc: every flow leaves by the ENI that it has to, and a second ensure() changes nothing",
  async () => {
    await using lab = await configured();
    assert.deepEqual(await lab.broken(), []);
    assert.deepEqual(await lab.dropped(), NONE_DROPPED);
    assert.deepEqual(await lab.host.ensure(DUAL), NOTHING);
    const restarted = lab.restart();
    assert.deepEqual(await restarted.inspect(DUAL), []);
    assert.deepEqual(
      await Promise.all([restarted.ensure(DUAL), lab.host.ensure(DUAL)]),
      [NOTHING, NOTHING],
    );
  },
);

const INBOUND = ["first to second", "peer to second", "node to second"];
const NODE_PORT = ["node port from peer", "node port from Internet"];

/** What is done to the node, and which flows break. */
const DAMAGES: readonly (readonly [string, readonly string[]])[] = [
  ["ip rule del pref 1024", ["node port from peer"]],
  // Nothing is translated: the way to any client is by the pod's ENI.
  ["ip -6 rule del pref 1024", NODE_PORT.map((name) => `${name} by IPv6`)],
  ["ip rule del pref 1536 from 10.0.1.112/28", [
    "second to peer",
    "peer to second",
    "second to peer by the second CIDR",
  ]],
  ["ip rule del pref 1536 from 10.0.1.200", ["single to peer"]],
  ["ip -6 rule del pref 1536", [
    "second to peer by IPv6",
    "second to Internet by IPv6",
    "peer to second by IPv6",
    "single to peer by IPv6",
    "single to Internet by IPv6",
  ]],
  ["ip rule del pref 32765", ["own address to peer"]],
  ["ip -6 rule del pref 32765", ["own address to peer by IPv6"]],
  ["ip route del 100.64.0.0/16 table 10001", [
    "second to peer by the second CIDR",
  ]],
  ["ip route flush table 10001", [
    "second to peer",
    "single to peer",
    "peer to second",
    "own address to peer",
    "second to peer by the second CIDR",
  ]],
  // The kernel removes the routes of a link with its last address.
  ["ip address del 10.0.1.20/32 dev eth1", [
    "second to peer",
    "single to peer",
    "peer to second",
    "own address to peer",
    "second to peer by the second CIDR",
  ]],
  ["nft flush chain inet coil-vpc source-nat", [
    "first to Internet",
    "second to Internet",
    "single to Internet",
  ]],
  ["nft flush chain inet coil-vpc node-ports", [
    "node port from peer",
    ...NODE_PORT.map((name) => `${name} by IPv6`),
  ]],
  ["nft delete table inet coil-vpc", [
    "first to Internet",
    "second to Internet",
    "single to Internet",
    "node port from peer",
    ...NODE_PORT.map((name) => `${name} by IPv6`),
  ]],
  ["sysctl -qw net.ipv4.conf.eth0.rp_filter=1", ["node port from peer"]],
  // What these do is seen later, or by large packets alone.
  ["sysctl -qw net.ipv6.conf.eth0.accept_ra=1", []],
  ["ip link set eth1 mtu 1400", []],
];

netnsTest(
  "vpc: each thing that is removed by hand breaks the flows that need it, and ensure() brings it back",
  async () => {
    await using lab = await configured();
    const { host } = lab.node;
    for (const [command, flows] of DAMAGES) {
      await shell(host, command);
      assert.notDeepEqual(await lab.host.inspect(DUAL), [], command);
      assert.deepEqual(
        (await lab.broken((flow) => flows.includes(flow))).sort(),
        [...flows].sort(),
        command,
      );
      const { changed, problems } = await lab.host.ensure(DUAL);
      assert.notDeepEqual(changed, [], command);
      assert.deepEqual(problems, [], command);
      assert.deepEqual(await lab.host.inspect(DUAL), [], command);
    }
    assert.deepEqual(await lab.broken(), []);
  },
);

netnsTest(
  "vpc: without rule 512 no pod is reached that leaves by a secondary ENI, or from one",
  async () => {
    await using lab = await configured();
    await shell(lab.node.host, "ip rule del pref 512");
    const broken = new Set(await lab.broken(() => true));
    for (const flow of [...INBOUND, ...NODE_PORT]) {
      assert.ok(broken.has(flow), flow);
    }
    await lab.node.net.upkeep.ensureHost();
    assert.deepEqual(await lab.broken(), []);
  },
);

netnsTest(
  "vpc: a link that was down gets back all that went with it",
  async () => {
    await using lab = await configured();
    await shell(lab.node.host, "ip link set eth1 down");
    const { problems } = await lab.host.ensure(DUAL);
    assert.deepEqual(problems, []);
    assert.deepEqual(await lab.broken(), []);
  },
);

netnsTest(
  "vpc: an ENI is configured when its link appears, under any name",
  async () => {
    await using lab = await vpcLab({ late: true });
    const { host } = lab.node;
    const early = await lab.host.ensure(DUAL);
    assert.deepEqual(early.problems.map(({ message }) => message), [
      'Cannot configure ENI "eni-0bbb": no link has MAC address 02:00:00:00:0b:01; its pods have no network until the link appears',
    ]);
    assert.deepEqual(await rulesOf(host), [
      "512: from all lookup 116",
      "1024: from all fwmark 0x80/0x80 lookup main proto 33",
      "512: from all lookup 116",
      "1024: from all fwmark 0x80/0x80 lookup main proto 33",
    ]);
    await lab.plug();
    await shell(
      host,
      `ip link set eth1 name ens6
       ip link set eth0 down
       ip link set eth0 name ens5
       ip link set ens5 up
       ip route add default via 10.0.1.1
       ip -6 address add 2001:db8:1::10/64 dev ens5 nodad
       ip -6 route add default via fe80::1 dev ens5`,
    );
    assert.deepEqual((await lab.host.ensure(DUAL)).problems, []);
    assert.deepEqual(await lab.broken(), []);
    assert.deepEqual(await lab.dropped(), NONE_DROPPED);
  },
);

/** The addresses of some networks, each as a block. */
function singles(networks: readonly string[]): Prefix[] {
  return networks.map(Prefix.parse).flatMap((network) =>
    Array.from(
      { length: Number(network.size) },
      (_, n) => Prefix.host(network.nth(BigInt(n))),
    )
  );
}

/** Rules of more blocks than stand in a row. */
const GROUPED: VpcHostSettings = {
  ...DUAL,
  enis: [...DUAL.enis.slice(0, 1), {
    ...SECONDARY,
    blocks: [
      ...SECONDARY.blocks,
      ...singles(["10.0.1.192/29", "10.0.1.144/28", "10.0.2.0/28"]),
    ],
  }],
};

netnsTest(
  "vpc: every flow leaves by its ENI with rules in groups, each of which is needed and comes back",
  async () => {
    await using lab = await configured(GROUPED);
    const { host } = lab.node;
    assert.deepEqual(await lab.broken(), []);
    assert.deepEqual(await lab.dropped(), NONE_DROPPED);
    assert.deepEqual(await lab.host.ensure(GROUPED), NOTHING);
    const ofSecond = [
      "second to peer",
      "peer to second",
      "second to peer by the second CIDR",
    ];
    const damages: readonly (readonly [string, readonly string[]])[] = [
      ["ip rule del pref 1536 from 10.0.1.0/24", [
        ...ofSecond,
        "single to peer",
      ]],
      ["ip rule del pref 1708 from 10.0.1.112/28", ofSecond],
      ["ip rule del pref 1708 from 10.0.1.192/26", ["single to peer"]],
      // Packets take longer.
      ["ip rule del pref 1709", []],
      ["ip rule del pref 2600", []],
    ];
    for (const [command, flows] of damages) {
      await shell(host, command);
      assert.deepEqual(
        (await lab.broken((flow) => flows.includes(flow))).sort(),
        [...flows].sort(),
        command,
      );
      assert.deepEqual((await lab.host.ensure(GROUPED)).problems, []);
      assert.deepEqual(await lab.host.inspect(GROUPED), [], command);
    }
    assert.deepEqual(await lab.broken(), []);
  },
);

netnsTest(
  "vpc: changes of blocks and CIDRs lose no packet of a pod",
  async () => {
    await using lab = await configured();
    const pinging = lab.pods.second.exec(
      ...["ping", "-n", "-i", "0.01", "-c", "300", PEER.ipv4] as const,
    );
    const more = ["10.0.1.128/28", "10.0.1.144/28"].map(Prefix.parse);
    const grown = { ...SECONDARY, blocks: [...more, ...SECONDARY.blocks] };
    const changes: Partial<VpcHostSettings>[] = [
      { enis: [DUAL.enis[0] ?? grown, grown] },
      { enis: GROUPED.enis },
      { vpcCidrs: [...DUAL.vpcCidrs, Prefix.parse("100.65.0.0/16")] },
      { externalSnat: true },
      { excludedCidrs: [Prefix.parse("192.168.0.0/16")] },
      { mtu: 1500 },
      { nodePorts: false },
      {},
    ];
    for (const change of [...changes, ...changes]) {
      const settings = { ...DUAL, ...change };
      const { changed, problems } = await lab.host.ensure(settings);
      assert.deepEqual(problems, []);
      assert.notDeepEqual(changed, [], JSON.stringify(change));
      assert.deepEqual(await lab.host.ensure(settings), NOTHING);
    }
    const { sent, lost } = countEchoes(await pinging);
    assert.equal(sent, 300);
    assert.equal(lost, 0);
  },
);

netnsTest("vpc: an ENI that is taken away leaves nothing behind", async () => {
  await using lab = await configured();
  const { host } = lab.node;
  const enis = DUAL.enis.slice(0, 1);
  await lab.host.ensure({ ...DUAL, enis, nodePorts: false });
  assert.deepEqual(await rulesOf(host), [
    "512: from all lookup 116",
    "512: from all lookup 116",
  ]);
  assert.deepEqual(await routesOf(host, 10_001), []);
});

netnsTest(
  "vpc: rules of other programs at our priorities stay, and are reported; ours are added and deleted beside them",
  async () => {
    await using lab = await vpcLab();
    const { host } = lab.node;
    // The second one is all that ours is, and more: without a protocol the kernel would take it for ours.
    await shell(
      host,
      `ip rule add pref 1536 from 10.9.0.0/24 lookup 7
       ip rule add pref 1536 from 10.0.1.112/28 to 192.0.2.0/24 lookup 10001`,
    );
    const { problems } = await lab.host.ensure(DUAL);
    assert.deepEqual(problems.map(({ message }) => message), [
      `Cannot be sure how ipv4 packets are routed: ipv4 rule "1536: from 10.9.0.0/24 lookup 7" is not Coil's; delete it, unless it is there on purpose`,
      `Cannot be sure how ipv4 packets are routed: ipv4 rule "1536: from 10.0.1.112/28 to 192.0.2.0/24 lookup 10001" is not Coil's; delete it, unless it is there on purpose`,
    ]);
    assert.deepEqual(await lab.broken(), []);
    await lab.host.ensure({ ...DUAL, enis: DUAL.enis.slice(0, 1) });
    const left = (await rulesOf(host)).filter((rule) => /^1536:/.test(rule));
    assert.deepEqual(left, [
      "1536: from 10.9.0.0/24 lookup 7",
      "1536: from 10.0.1.112/28 to 192.0.2.0/24 lookup 10001",
    ]);
  },
);

netnsTest(
  "vpc: an address that the distribution gave an ENI stays, and its subnet's route goes",
  async () => {
    await using lab = await vpcLab();
    const { host } = lab.node;
    await shell(
      host,
      "ip link set eth1 up; ip address add 10.0.1.20/24 dev eth1",
    );
    const ofSubnet = async () =>
      (await routesOf(host, "main")).filter((r) => r.startsWith("10.0.1.0/24"));
    assert.equal((await ofSubnet()).length, 2);
    const { problems } = await lab.host.ensure(DUAL);
    assert.deepEqual(problems, []);
    assert.deepEqual(await ofSubnet(), [
      "10.0.1.0/24 dev eth0 proto kernel scope link src 10.0.1.10",
    ]);
    const shown = await host.ip("-4", "-o", "address", "show", "dev", "eth1");
    assert.equal(shown.trim().split("\n").length, 1, shown);
    assert.deepEqual(await lab.broken(), []);
  },
);

netnsTest(
  "vpc: an address of a pod on a link of the host is reported",
  async () => {
    await using lab = await configured();
    await shell(
      lab.node.host,
      `ip address add ${PODS.second.ipv4}/32 dev eth1`,
    );
    const { changed, problems } = await lab.host.ensure(DUAL);
    assert.deepEqual(changed, []);
    assert.deepEqual(problems.map(({ message }) => message), [
      `Cannot give address "10.0.1.114" to a pod: link "eth1" of the host has it, so its packets stay on the host; remove it there, and stop the program that adds it`,
    ]);
  },
);

netnsTest(
  "vpc: IPv4 works where IPv6 is switched off, which is reported",
  async () => {
    await using lab = await vpcLab();
    await shell(lab.node.host, "sysctl -qw net.ipv6.conf.eth1.disable_ipv6=1");
    const { problems } = await lab.host.ensure(DUAL);
    assert.deepEqual(
      problems.map(({ message }) => message.replace(/: kernel.*/, "")),
      [
        'Cannot add address "2001:db8:1::20/128" to link 3: Cannot add address "2001:db8:1::20/128" to link 3',
        'Cannot replace route "default" to table 10001: Cannot replace route "default" to table 10001',
      ],
    );
    const isIpv6 = (flow: string) => flow.endsWith("IPv6");
    const broken = await lab.broken(isIpv6);
    assert.deepEqual(broken.filter((flow) => !isIpv6(flow)), []);
  },
);

netnsTest(
  "vpc: with external SNAT a pod leaves by its own ENI with its own address",
  async () => {
    const settings = { ...DUAL, externalSnat: true };
    await using lab = await configured(settings);
    const { pods, fabric } = lab;
    assert.equal(
      await pings(pods.second, OUTSIDE.ipv4, { wait: WAIT.lost }),
      false,
    );
    const { private: seen, ...others } = await lab.dropped();
    assert.ok((seen ?? 0) > 0);
    assert.deepEqual(others, { by_primary: 0, by_secondary: 0 });
    await shell(fabric, "nft flush chain inet vpc gateway");
    assert.deepEqual(await lab.broken(), []);
  },
);

netnsTest(
  "vpc: pods reach the metadata service only where they may",
  async () => {
    await using lab = await configured();
    const { node: { host }, pods } = lab;
    const assertReached = async (from: TempNetns, expected: boolean) => {
      const wait = expected ? WAIT.answered : WAIT.lost;
      for (const to of [METADATA.ipv4, METADATA.ipv6]) {
        assert.equal(await pings(from, to, { wait }), expected, to);
      }
    };
    await assertReached(pods.first, true);
    await assertReached(pods.second, true);
    await lab.host.ensure({ ...DUAL, podImds: false });
    await assertReached(pods.first, false);
    await assertReached(pods.second, false);
    await assertReached(host, true);
    assert.deepEqual(await lab.broken(), []);
  },
);

netnsTest(
  "vpc: an ENI's link may be renamed while packets flow",
  async () => {
    await using lab = await configured();
    await shell(
      lab.node.host,
      "ip link set eth0 name ens5; ip link set eth1 name ens6",
    );
    assert.deepEqual(await lab.broken(), []);
    assert.deepEqual(await lab.dropped(), NONE_DROPPED);
    assert.deepEqual(await lab.host.ensure(DUAL), NOTHING);
  },
);

netnsTest(
  "vpc: watching tells what others remove, and nothing of ensure()",
  async () => {
    await using lab = await configured();
    await using monitor = lab.host.watchRoutes();
    await using tables = lab.host.watchTable();
    const { host } = lab.node;
    const seen = async (kind: Notification["kind"]) => {
      const signal = AbortSignal.timeout(60_000);
      const found: Notification[] = [];
      while (!found.some((one) => one.kind === kind)) {
        found.push(...await monitor.next({ signal }));
      }
      // The kernel's own addresses come when they like.
      return found.map((one) => one.kind).filter((one) => one !== "address");
    };
    await lab.host.ensure({ ...DUAL, externalSnat: true, nodePorts: false });
    await lab.host.ensure(DUAL);
    await shell(host, "ip rule del pref 32765");
    assert.deepEqual(await seen("rule"), ["rule"]);
    await shell(host, "ip route del 100.64.0.0/16 table 10001");
    assert.deepEqual(await seen("route"), ["route"]);
    await shell(host, "nft delete table inet coil-vpc");
    const signal = AbortSignal.timeout(60_000);
    while ((await tables.next({ signal })).length === 0);
  },
);
