// What packets of pods with addresses of their VPC do: a whole coild on each of
// two nodes, in a fabric that drops and counts what has no source of its ENI.
import assert from "node:assert/strict";
import { Netns } from "../../lib/linux/mod.ts";
import {
  ON_PREMISES,
  OUTSIDE,
  OUTSIDE6,
  PEER,
  PEER6,
} from "../lab/cloud/site.ts";
import {
  byHand,
  cloudConfig,
  GROUP,
  INSTANCE,
  SUBNET,
} from "../lab/cloud/testing.ts";
import { eventually, type LabNode, run } from "../lab/mod.ts";
import { listenIn } from "../netns/egress_client_lab.ts";
import { NODE_PORT, nodePortTables, POD_PORT } from "../netns/vpc_lab.ts";
import type { Coild, Sandbox } from "./coild_lab.ts";
import { BARE, VpcLab } from "./coild_vpc_lab.ts";
import { patchPodStatus } from "./patch_status.ts";

const FLAGS = [
  ...BARE,
  "--ip-family=dual",
  "--no-snat-cidrs=192.168.0.0/16",
  "--addressblock-gc-interval=2s",
];
const OTHER = "i-0000000000000000b";

/** A pod with its addresses, IPv4's first. */
interface Pod {
  readonly pod: Sandbox;
  readonly addresses: readonly string[];
}

/** The first node's pods, by where their addresses are, and one of the other node. */
interface Site {
  readonly vpc: VpcLab;
  readonly first: Pod;
  readonly second: Pod;
  readonly far: Pod;
}

async function works(netns: string, ...command: string[]): Promise<boolean> {
  return await run("nsenter", [`--net=/run/netns/${netns}`, ...command])
    .then(() => true, () => false);
}

function pings(netns: string, ...to: string[]): Promise<boolean> {
  const ping = ["ping", "-n", "-q", "-i", "0.2", "-c", "1", "-w", "5"] as const;
  return works(netns, ...ping, ...to);
}

function connects(netns: string, to: string, port: number): Promise<boolean> {
  const script = `: </dev/tcp/${to}/${port}`;
  return works(netns, "timeout", "5", "bash", "-c", script);
}

/** An ENI's own addresses, as the node's link has them. */
async function ownAddresses(node: LabNode, link: string): Promise<string[]> {
  const text = await node.run("ip", "-j", "address", "show", "dev", link);
  const [{ addr_info = [] } = {}] = JSON.parse(text) as {
    addr_info: { local: string; scope: string }[];
  }[];
  return addr_info.filter(({ scope }) => scope === "global")
    .map(({ local }) => local);
}

/** The names of the flows that do not work. */
async function brokenOf({ vpc, first, second, far }: Site): Promise<string[]> {
  const { peer, outside, onPremises } = vpc.site.hosts;
  const node = vpc.lab.node();
  const host = node.netns;
  const [primary, secondary] = [
    await ownAddresses(node, "eth0"),
    await ownAddresses(node, "eth1"),
  ];
  const flows: [string, Promise<boolean>][] = [];
  const add = (name: string, working: Promise<boolean>) =>
    void flows.push([name, working]);
  const ways = [
    ["", PEER, OUTSIDE],
    [" by IPv6", PEER6, OUTSIDE6],
  ] as const;
  for (const [n, [end, toPeer, toOutside]] of ways.entries()) {
    const to = (pod: Pod) => pod.addresses[n] ?? "";
    for (const [name, one] of Object.entries({ first, second })) {
      const { netns } = one.pod;
      add(`${name} to far${end}`, pings(netns, to(far)));
      add(`far to ${name}${end}`, pings(far.pod.netns, to(one)));
      add(`${name} to peer${end}`, pings(netns, toPeer));
      add(`${name} to Internet${end}`, pings(netns, toOutside));
      // As the kubelet probes: only `second` serves.
      if (one === second) {
        add(`probe of ${name}${end}`, connects(host, to(one), POD_PORT));
      } else add(`probe of ${name}${end}`, pings(host, to(one)));
    }
    add(`first to second${end}`, pings(first.pod.netns, to(second)));
    add(`second to first${end}`, pings(second.pod.netns, to(first)));
    const at = primary[n] ?? "";
    add(`node port from peer${end}`, connects(peer, at, NODE_PORT));
    add(`node port from Internet${end}`, connects(outside, at, NODE_PORT));
  }
  // An ENI of coild has a /80, and no IPv6 address of its own.
  add(FROM_OWN, pings(host, "-I", secondary[0] ?? "", PEER));
  add("first to on-premises", pings(first.pod.netns, ON_PREMISES));
  add("second to on-premises", pings(second.pod.netns, ON_PREMISES));
  add(
    "on-premises to second",
    pings(onPremises, second.addresses[0] ?? ""),
  );
  const broken: string[] = [];
  for (const [name, working] of flows) if (!await working) broken.push(name);
  return broken;
}

/** Serves the pod by a port of its node. */
async function serveNodePort(
  node: LabNode,
  { addresses: [ipv4 = "", ipv6 = ""] }: Pod,
): Promise<void> {
  const [own = "", own6 = ""] = await ownAddresses(node, "eth0");
  const at = { ipv4: own, ipv6: own6 };
  await node.run("nft", nodePortTables(at, { ipv4, ipv6 }));
}

/** Hosts that see pods' own addresses drop pings from a node's: these would have been translated. */
async function refuseTranslated(vpc: VpcLab): Promise<void> {
  const nodes = await Promise.all(
    vpc.lab.nodes.map((node) => ownAddresses(node, "eth0")),
  );
  const own = nodes.map(([ipv4]) => ipv4);
  const { peer, onPremises } = vpc.site.hosts;
  for (const netns of [peer, onPremises]) {
    await run("nsenter", [
      `--net=/run/netns/${netns}`,
      "nft",
      `table ip own {
         chain in {
           type filter hook input priority filter
           icmp type echo-request ip saddr { ${own.join(", ")} } drop
         }
       }`,
    ]);
  }
}

const TO_VPC = ["far", "peer"];
const NODE_PORTS = ["node port from peer", "node port from Internet"];

function byIpv6(flows: readonly string[]): string[] {
  return flows.map((flow) => `${flow} by IPv6`);
}

/** What leaves by the secondary ENI, where only the VPC is reached by it. */
const BY_SECONDARY = [
  ...TO_VPC.map((to) => `second to ${to}`),
  "far to second",
  "second to on-premises",
  "on-premises to second",
];
const BY_SECONDARY6 = byIpv6([
  ...[...TO_VPC, "Internet"].map((to) => `second to ${to}`),
  "far to second",
]);
const FROM_OWN = "own address to peer";

/** What is removed, and exactly which flows need it. */
const DAMAGES: readonly (readonly [string, readonly string[]])[] = [
  ["ip rule del pref 1024", ["node port from peer"]],
  // Nothing is translated: the way to any client is by the pod's ENI.
  ["ip -6 rule del pref 1024", byIpv6(NODE_PORTS)],
  ["ip rule del pref 1536 from SECOND", BY_SECONDARY],
  ["ip -6 rule del pref 1536", BY_SECONDARY6],
  ["ip rule del pref 32765", [FROM_OWN]],
  ["ip route flush table 10001", [...BY_SECONDARY, FROM_OWN]],
  ["nft delete table inet coil-vpc", [
    "first to Internet",
    "second to Internet",
    "node port from peer",
    ...byIpv6(NODE_PORTS),
  ]],
];

const PODS_OF_NODE = ["first", "second"].map((name) => `probe of ${name}`);

/** What all pods of the node need. */
const OF_ALL_PODS: readonly (readonly [string, readonly string[]])[] = [
  ["ip rule del pref 512", PODS_OF_NODE],
  ["ip -6 rule del pref 512", byIpv6(PODS_OF_NODE)],
  ["ip route flush table 116", PODS_OF_NODE],
  ["ip -6 route flush table 116", byIpv6(PODS_OF_NODE)],
];

const STATE = [
  ...["rule", "route show table 116", "route show table 10001"]
    .flatMap((what) => [`ip ${what}`, `ip -6 ${what}`]),
  "nft list table inet coil-vpc",
];

async function stateOf(node: LabNode): Promise<string> {
  const texts = await Promise.all(STATE.map((command) => {
    const [program = "", ...args] = command.split(" ");
    return node.run(program, ...args).catch(() => "");
  }));
  // Rules of one priority may come back in another order.
  return texts.map((text) => text.split("\n").sort().join("\n")).join("\n");
}

/** Waits until just these flows are broken: on a busy machine a good one may take longer than it is given. */
async function expectBroken(
  site: Site,
  isExpected: (broken: readonly string[]) => void,
): Promise<void> {
  await eventually("what works and what does not", async () => {
    isExpected(await brokenOf(site));
    return true;
  });
}

/** Damages the node while coild is frozen, which puts the thing back when it goes on. */
async function damage(
  site: Site,
  { coild, command, isExpected }: {
    readonly coild: Coild;
    readonly command: string;
    /** Fails unless what is broken then is what has to be. */
    readonly isExpected: (broken: readonly string[]) => void;
  },
): Promise<void> {
  const { node } = coild;
  const before = await stateOf(node);
  coild.process.signal("SIGSTOP");
  try {
    await node.run("sh", "-c", command);
    await expectBroken(site, isExpected);
  } finally {
    coild.process.signal("SIGCONT");
  }
  await eventually(
    `what "${command}" removed`,
    async () => await stateOf(node) === before,
  );
}

/** Attaches what two nodes have at device 1 to each other, as an operator. */
async function swapEnis({ site, lab }: VpcLab): Promise<void> {
  const attachments = await Promise.all(lab.nodes.map(async (node) => {
    const [, eni] = await site.enis(node);
    assert.ok(eni?.attachment);
    const { networkInterfaceId: id, attachment } = eni;
    return { id, attachmentId: attachment.attachmentId };
  }));
  for (const { attachmentId } of attachments) {
    await byHand(site.cloud, "DetachNetworkInterface", {
      AttachmentId: attachmentId,
    });
  }
  for (const [n, InstanceId] of [OTHER, INSTANCE].entries()) {
    await byHand(site.cloud, "AttachNetworkInterface", {
      NetworkInterfaceId: attachments[n]?.id ?? "",
      InstanceId,
      DeviceIndex: 1,
    });
  }
}

Deno.test("packets of pods with addresses of their VPC go their ways, each thing on the node is needed, and comes back", async (t) => {
  await using vpc = await VpcLab.start("coildvpcflows", {
    subnets: cloudConfig().subnets,
    instances: [INSTANCE, OTHER].map((id) => (
      { id, type: "t3.small", subnet: SUBNET, securityGroups: [GROUP] }
    )),
  });
  const { lab } = vpc;
  const [node, neighbour] = [lab.node(), lab.node(2)];
  await using coild = await vpc.start(FLAGS);
  await using other = await vpc.start(FLAGS, neighbour);
  const add = async (name: string, of: Coild): Promise<Pod> => {
    const pod = await lab.createPod(name, { node: of.node });
    const addresses = await vpc.add(of, pod);
    await patchPodStatus(lab.plane, pod, { ips: addresses });
    return { pod, addresses };
  };
  const first = await add("first", coild);
  const far = await add("far", other);

  await t.step("an ENI whose link comes late", async () => {
    await vpc.cloud.ask.setPace({ plugMs: 3_600_000 });
    for (const name of ["a", "b"]) await add(name, coild);
    await vpc.site.expectLayout(node, [3, 1]);
    await eventually(
      "coild to miss the link",
      async () =>
        (await coild.process.logs()).includes("no link has MAC address"),
    );
    await vpc.cloud.ask.setPace({ plugMs: 0 });
  });
  const second = await add("second", coild);
  const site: Site = { vpc, first, second, far };
  using server = Netns.open(`/run/netns/${second.pod.netns}`);
  // Never accepts: the kernel completes connections.
  using _listener = listenIn(server, "ipv6", { port: POD_PORT });
  // What is compared with later on is what it comes to: an address more is on its way.
  await vpc.site.expectLayout(node, [3, 2]);
  await vpc.site.quiet();
  await serveNodePort(node, second);
  await refuseTranslated(vpc);

  await t.step("all ways, without a packet that the VPC drops", async () => {
    await expectBroken(site, (broken) => assert.deepEqual(broken, []));
    await vpc.site.assertNoDrops();
  });

  for (const [text, flows] of DAMAGES) {
    await t.step(`${text} breaks ${flows.length} of them`, async () => {
      const command = text.replace("SECOND", second.addresses[0] ?? "");
      await damage(site, {
        coild,
        command,
        isExpected: (broken) =>
          assert.deepEqual(broken.toSorted(), flows.toSorted()),
      });
    });
  }

  for (const [command, flows] of OF_ALL_PODS) {
    await t.step(`${command} breaks what goes to pods`, async () => {
      await damage(site, {
        coild,
        command,
        isExpected: (broken) =>
          assert.deepEqual(flows.filter((it) => !broken.includes(it)), []),
      });
    });
  }

  await t.step("all ways, with coild killed", async () => {
    await coild.process.kill9();
    await expectBroken(site, (broken) => assert.deepEqual(broken, []));
  });

  await t.step("ENIs of two nodes that are swapped", async () => {
    await using again = await vpc.start(FLAGS);
    for (const name of ["c", "d", "e"]) await add(name, other);
    await vpc.site.expectLayout(neighbour, [3, 2]);
    await swapEnis(vpc);
    await eventually("an Event on the pod that lost its address", async () => {
      const { items } = await lab.plane.request(
        "GET",
        "/api/v1/namespaces/default/events?fieldSelector=involvedObject.name=second",
      ) as { items: { reason: string; message: string }[] };
      return items.some(({ reason, message }) =>
        reason === "AddressQuarantined" &&
        message.includes(second.addresses[0] ?? "none")
      );
    });
    // Its address may be that of a pod of the other node, which lost it.
    const later = await add("later", again);
    for (const to of [PEER, PEER6, OUTSIDE, OUTSIDE6, ...first.addresses]) {
      assert.ok(await vpc.pings(later.pod, to), to);
    }
  });
});
