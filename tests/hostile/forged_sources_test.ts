import assert from "node:assert/strict";
import { inNetns, Netns } from "../../lib/linux/mod.ts";
import {
  type AddResult,
  type Coild,
  CoildLab,
  inPod,
  type Sandbox,
} from "../apiserver/coild_lab.ts";
import { arpRequest, udpFrame } from "../lab/frames.ts";
import { eventually } from "../lab/mod.ts";
import { RawLink } from "../lab/raw_link.ts";

const PORT = 7000;
const IPV4 = "10.140.0";
const IPV6 = "fd02::140";

interface Pod {
  readonly sandbox: Sandbox;
  readonly result: AddResult;
  readonly addresses: readonly string[];
}

async function addPod(lab: CoildLab, coild: Coild, name: string): Promise<Pod> {
  const sandbox = await lab.createPod(name);
  const result = await coild.add(sandbox);
  const addresses = result.ips.map((ip) => ip.address.split("/")[0] ?? "");
  return { sandbox, result, addresses };
}

function pathOf({ sandbox }: Pod): string {
  return `/run/netns/${sandbox.netns}`;
}

async function rawLink(pod: Pod): Promise<RawLink> {
  const text = await inPod(pod.sandbox, "ip", "-j", "link", "show", "eth0");
  const [link] = JSON.parse(text) as { ifindex: number }[];
  return new RawLink(pathOf(pod), link?.ifindex ?? 0);
}

/** Which of the sources a victim's socket sees; the last one is the attacker's own and ends it. */
async function seen(
  attacker: Pod,
  victim: Pod,
  { destination, forged }: {
    readonly destination: string;
    readonly forged: readonly string[];
  },
): Promise<string[]> {
  const own =
    attacker.addresses.find((address) =>
      address.includes(":") === destination.includes(":")
    ) ?? "";
  using netns = Netns.open(pathOf(victim));
  const socket = inNetns(
    netns,
    () =>
      Deno.listenDatagram({
        hostname: destination,
        port: PORT,
        transport: "udp" as const,
      }),
  );
  try {
    using link = await rawLink(attacker);
    const [pod, host] = attacker.result.interfaces;
    const ends = { fromMac: pod?.mac ?? "", toMac: host?.mac ?? "" };
    for (const source of [...forged, own]) {
      link.send(
        udpFrame({ ...ends, source, destination, port: PORT, payload: "x" }),
      );
    }
    const sources: string[] = [];
    while (sources.at(-1) !== own) {
      const [, from] = await socket.receive();
      sources.push((from as Deno.NetAddr).hostname);
    }
    return sources.slice(0, -1);
  } finally {
    socket.close();
  }
}

Deno.test("a pod cannot send as somebody else", async (t) => {
  await using lab = await CoildLab.start({ name: "hostileforged" });
  const node = lab.node();
  await lab.createPool("default", [{
    ipv4: `${IPV4}.0/24`,
    ipv6: `${IPV6}:0/120`,
  }]);
  lab.granter.start();
  let coild = await lab.startCoild(node);
  const attacker = await addPod(lab, coild, "attacker");
  const victim = await addPod(lab, coild, "victim");
  const neighbour = await addPod(lab, coild, "neighbour");
  const [nodeText] = JSON.parse(
    await node.run("ip", "-j", "-4", "addr", "show", "dev", "eth0"),
  ) as { addr_info: { local: string }[] }[];
  const nodeAddress = nodeText?.addr_info[0]?.local ?? "";
  const [ipv4 = "", ipv6 = ""] = victim.addresses;
  const FORGED = [
    {
      destination: ipv4,
      forged: [neighbour.addresses[0] ?? "", nodeAddress, "203.0.113.9"],
    },
    {
      destination: ipv6,
      forged: [neighbour.addresses[1] ?? "", "2001:db8:9::9"],
    },
  ];

  async function assertNothingForged(): Promise<void> {
    for (const attack of FORGED) {
      assert.deepEqual(await seen(attacker, victim, attack), []);
    }
  }

  await t.step(
    "as a neighbour, its node or an address outside: dropped and counted",
    async () => {
      await assertNothingForged();
      for (const [i, family] of ["ipv4", "ipv6"].entries()) {
        // The kernel may get round to one after what was sent behind it.
        const counter = `coil_coild_forged_packets_total{family="${family}"}`;
        await eventually(counter, async () => {
          assert.equal(await coild.metric(counter), FORGED[i]?.forged.length);
          return true;
        });
      }
      assert.equal(await coild.metric("coil_coild_source_validation"), 1);
      await coild.check(attacker.sandbox);
    },
  );

  await t.step(
    "while the whole node trusts any source that has a route",
    async () => {
      await node.run(
        "sh",
        "-c",
        [
          "echo 2 >/proc/sys/net/ipv4/conf/all/rp_filter",
          "ip route replace default dev eth0 || true",
        ].join("; "),
      );
      await assertNothingForged();
      using link = await rawLink(attacker);
      const fromMac = attacker.result.interfaces[0]?.mac ?? "";
      for (let n = 0; n < 6_000; n++) {
        const sender = `10.99.${n >> 8}.${n & 0xff}`;
        link.send(arpRequest({ fromMac, sender, target: "169.254.1.1" }));
      }
      await inPod(attacker.sandbox, "ping", "-c1", "-w20", "169.254.1.1");
      const veth = attacker.result.interfaces[1]?.name ?? "";
      const text = await node.run("ip", "-4", "neigh", "show", "dev", veth);
      assert.equal(text.trim().split("\n").length, 1, text);
    },
  );

  await t.step(
    "after coild was killed, and while it is away",
    async () => {
      await coild.process.kill9();
      await assertNothingForged();
    },
  );

  await t.step(
    "after the packet filter was flushed and links were as an earlier version left them",
    async () => {
      await node.run("nft", "flush", "ruleset");
      for (const pod of [attacker, neighbour]) {
        const veth = pod.result.interfaces[1]?.name ?? "";
        await node.run("ip", "link", "set", veth, "group", "default");
      }
      assert.notDeepEqual(
        await seen(
          attacker,
          victim,
          FORGED[1] ?? { destination: "", forged: [] },
        ),
        [],
      );
      coild = await lab.startCoild(node);
      await eventually("the pods to be checked again", async () => {
        await coild.check(attacker.sandbox);
        return true;
      });
      await assertNothingForged();
      assert.match(await coild.process.logs(), /"before":"unchecked"/);
    },
  );

  await t.step("and what is its own goes on", async () => {
    for (const target of [...victim.addresses, nodeAddress]) {
      await inPod(attacker.sandbox, "ping", "-c1", "-w20", target);
    }
    for (const address of attacker.addresses) {
      await node.run("ping", "-c1", "-w20", address);
    }
  });

  await coild.process.stop({ graceMs: 25_000 });
});
