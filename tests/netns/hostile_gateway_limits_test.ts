import assert from "node:assert/strict";
import { ConntrackSocket } from "../../lib/netlink/mod.ts";
import {
  type ClientLimits,
  clientLimits,
  limitClients,
} from "../../lib/egress/mod.ts";
import { applyTable, isTableWhole } from "../../lib/egress/gateway/limits.ts";
import { Address } from "../../lib/inet/mod.ts";
import { eventually } from "../lab/wait.ts";
import {
  AT,
  type GatewayTableLab,
  gatewayTableLab,
  planOf,
  useTable,
} from "./gateway_table_lab.ts";
import { ipPacket, PROTOCOLS, tcpSyn, udp } from "./raw_packets.ts";
import { netnsTest } from "./testing.ts";

/** A lab whose gateway has these limits. */
async function labOf(limits: ClientLimits): Promise<GatewayTableLab> {
  await using stack = new AsyncDisposableStack();
  const lab = stack.use(await gatewayTableLab());
  await useTable(lab, limitClients(planOf(), limits).table);
  stack.move();
  return lab;
}

/** Datagrams of so many flows, from one source to one destination. */
function flowsOf(
  source: string,
  count: number,
  { destination, first = 1024 }: {
    readonly destination?: string;
    readonly first?: number;
  } = {},
): Uint8Array[] {
  const family = source.includes(":") ? "ipv6" : "ipv4";
  const path = { source, destination: destination ?? AT.outside[family] };
  return Array.from(
    { length: count },
    (_, i) =>
      ipPacket(path, udp(path, [first + i, 53]), { protocol: PROTOCOLS.udp }),
  );
}

/** How many connections the gateway has, by source. */
async function flowsBySource(
  { netns }: GatewayTableLab,
): Promise<Record<string, number>> {
  using conntrack = ConntrackSocket.open({ netns });
  const sources: Record<string, number> = {};
  for (const family of ["ipv4", "ipv6"] as const) {
    await conntrack.visit(({ protocol, originalSource }) => {
      if (protocol !== PROTOCOLS.udp) return;
      const source = originalSource.toString();
      sources[source] = (sources[source] ?? 0) + 1;
    }, { family });
  }
  return sources;
}

/** Sends flows until the gateway has them all, or as many as it takes. */
async function sendAll(
  lab: GatewayTableLab,
  packets: readonly Uint8Array[],
): Promise<Record<string, number>> {
  const before = await passed(lab);
  await lab.send(packets);
  await eventually("every packet decided on", async () => {
    return await passed(lab) - before === packets.length;
  });
  return await flowsBySource(lab);
}

/** Connections that got out or were refused. */
async function passed(lab: GatewayTableLab): Promise<number> {
  const counted = await lab.counted();
  return ["masqueraded", "limited"].flatMap((kind) =>
    ["ipv4", "ipv6"].map((family) => counted[`${kind}_${family}`] ?? 0)
  ).reduce((a, b) => a + b);
}

const { client, second } = AT;

netnsTest(
  "a client that opens all it can leaves three quarters of the gateway's table to others",
  async () => {
    const limits = clientLimits(undefined, 600);
    assert.deepEqual(limits, { flows: 150 });
    await using lab = await labOf(limits ?? {});
    for (const family of ["ipv4", "ipv6"] as const) {
      const hostile = await sendAll(lab, flowsOf(client[family], 2000));
      assert.equal(hostile[client[family]], 150);
      const other = await sendAll(lab, flowsOf(second[family], 100));
      assert.equal(other[second[family]], 100);
    }
    const counted = await lab.counted();
    assert.deepEqual(
      [counted["limited_ipv4"], counted["limited_ipv6"]],
      [1850, 1850],
    );
    const refused = await lab.netfilter.listSet("coil", "refused4");
    assert.deepEqual(refused.map(String), [client.ipv4]);
  },
);

netnsTest(
  "who was over the limit may go on as soon as connections have ended",
  async () => {
    await using lab = await labOf({ flows: 100 });
    await sendAll(lab, flowsOf(client.ipv4, 300));
    using conntrack = ConntrackSocket.open({ netns: lab.netns });
    let ended = 0;
    await conntrack.deleteWhere(() => ++ended <= 50, { family: "ipv4" });
    let first = 30_000;
    await eventually("new connections", async () => {
      // New ones each time: the pause may have ended amid the last ones, and what is a connection already is not decided on again.
      const packets = flowsOf(client.ipv4, 60, { first });
      first += packets.length;
      const flows = await sendAll(lab, packets);
      return flows[client.ipv4] === 100;
    });
  },
);

netnsTest("one flow of many packets is one flow, answered or not", async () => {
  await using lab = await labOf({ flows: 2 });
  const [packet] = flowsOf(client.ipv4, 1);
  assert.ok(packet);
  await lab.send(Array.from({ length: 2000 }, () => packet));
  const flows = await sendAll(lab, flowsOf(client.ipv4, 1, { first: 9000 }));
  assert.equal(flows[client.ipv4], 2);
  assert.equal((await lab.counted())["limited_ipv4"], undefined);
  await eventually("all packets outside", async () => {
    return (await lab.seen()).includes(`${AT.gateway.ipv4} x 2001`);
  });
});

netnsTest(
  "a client over its limit keeps the flows that it has, answered or not",
  async () => {
    await using lab = await labOf({ flows: 50 });
    const packets = flowsOf(client.ipv4, 100);
    await sendAll(lab, packets);
    await lab.send(packets);
    await eventually("the second packets of the first flows", async () => {
      const seen = await lab.seen();
      return seen.includes(`${AT.gateway.ipv4} x 100`);
    });
    await eventually("those of the others to be refused again", async () => {
      return (await lab.counted())["limited_ipv4"] === 100;
    });
  },
);

netnsTest(
  "a client that opens all it can to one address leaves source ports to others, and others to itself",
  async () => {
    await using lab = await labOf({ flows: 1000, flowsToOneAddress: 100 });
    const elsewhere = "203.0.113.10";
    const first = await sendAll(lab, flowsOf(client.ipv4, 500));
    assert.equal(first[client.ipv4], 100);
    const more = await sendAll(lab, [
      ...flowsOf(client.ipv4, 50, { destination: elsewhere }),
      ...flowsOf(second.ipv4, 50),
    ]);
    assert.equal(more[client.ipv4], 150);
    assert.equal(more[second.ipv4], 50);
  },
);

netnsTest(
  "a large limit, of which only a part is counted, holds within a fifth",
  async () => {
    const limits = clientLimits(undefined, 4 * 12_000);
    assert.deepEqual(limits, { flows: 12_000 });
    await using lab = await labOf(limits ?? {});
    const flows = await sendAll(lab, flowsOf(client.ipv4, 40_000));
    const has = flows[client.ipv4] ?? 0;
    assert.ok(has > 9600 && has < 14_400, `${has} connections`);
    const other = await sendAll(lab, flowsOf(second.ipv4, 5000));
    // The kernel may lose one whose new source port two of its processors chose at once.
    assert.ok((other[second.ipv4] ?? 0) > 4900, `${other[second.ipv4]}`);
  },
);

/** Begins so many connections to a port of the gateway. */
function connectionsTo(
  port: number,
  { source, count }: { readonly source: string; readonly count: number },
): Uint8Array[] {
  const family = source.includes(":") ? "ipv6" : "ipv4";
  const path = { source, destination: AT.gateway[family] };
  return Array.from(
    { length: count },
    (_, i) =>
      ipPacket(path, tcpSyn(path, [1024 + i, port]), {
        protocol: PROTOCOLS.tcp,
      }),
  );
}

netnsTest(
  "who connects to the probes' port in a flood is refused there, other peers and ports are not",
  async () => {
    const [probes, other, flood] = [8081, 8082, 500];
    const peers = {
      ipv4: [AT.outside.ipv4, "203.0.113.10"],
      ipv6: [AT.outside.ipv6, "2001:db8:9::10"],
    } as const;
    for (const family of ["ipv4", "ipv6"] as const) {
      await using lab = await gatewayTableLab();
      using conntrack = ConntrackSocket.open({ netns: lab.netns });
      await applyTable(
        { netfilter: lab.netfilter, conntrack },
        planOf({ probePort: probes }),
        [],
      );
      const [hostile, kubelet] = peers[family];
      // Nobody listens, so each that comes in is answered.
      const to = (peer: string) =>
        `${family === "ipv4" ? "ip" : "ip6"} daddr ${peer} tcp sport`;
      await lab.outside.exec(
        "nft",
        `table inet answers { counter hostile { }; counter kubelet { }; counter other { };
        chain in { type filter hook prerouting priority -400;
        ${to(hostile)} ${probes} counter name hostile
        ${to(kubelet)} ${probes} counter name kubelet
        ${to(hostile)} ${other} counter name other; }; }`,
      );
      const answered = async (counter: string) => {
        const list = ["list", "counter", "inet", "answers", counter];
        const text = await lab.outside.exec("nft", ...list);
        return Number(/packets (\d+)/.exec(text)?.[1]);
      };
      const startMs = performance.now();
      await lab.sendFromOutside(
        connectionsTo(probes, { source: hostile, count: flood }),
      );
      await eventually("the burst", async () => {
        return await answered("hostile") >= 40;
      });
      await lab.sendFromOutside([
        ...connectionsTo(probes, { source: kubelet, count: 2 }),
        ...connectionsTo(other, { source: hostile, count: flood }),
      ]);
      await eventually("what is not limited", async () => {
        return await answered("kubelet") === 2 &&
          await answered("other") === flood;
      });
      const most = 40 + 20 * (1 + (performance.now() - startMs) / 1000);
      const refused = flood - await answered("hostile");
      assert.ok(refused > flood - most, `${refused} of ${flood} refused`);
    }
  },
);

netnsTest(
  "anything that others change in the gateway's table is found",
  async () => {
    await using lab = await gatewayTableLab();
    using conntrack = ConntrackSocket.open({ netns: lab.netns });
    const kernel = { netfilter: lab.netfilter, conntrack };
    const plan = planOf();
    const clients = Object.values(client).map((text) => Address.parse(text));
    const chains = plan.table.chains.map(({ name }) =>
      `chain inet coil ${name}`
    );
    const sets = plan.table.sets.map(({ name }) => `set inet coil ${name}`);
    const damages = [
      ...chains.map((chain) => `flush ${chain}`),
      ...chains.map((chain) => `add rule ${chain.slice(6)} accept`),
      ...sets.filter((set) => set.includes("client")).map((set) =>
        `flush ${set}`
      ),
    ];
    assert.ok(damages.length > 4, damages.join());
    for (const damage of damages) {
      const limits = await applyTable(kernel, plan, clients);
      const isWhole = () => isTableWhole(kernel, plan, { clients, limits });
      assert.equal(await isWhole(), true, `before ${damage}`);
      await lab.gateway.exec("nft", ...damage.split(" "));
      assert.equal(await isWhole(), false, damage);
    }
  },
);
