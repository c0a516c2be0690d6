// One client, or somebody who is none, wants all that a gateway has.
import assert from "node:assert/strict";
import { Address, FAMILIES, type Family } from "../../lib/inet/mod.ts";
import { egressStatus } from "../../lib/api/mod.ts";
import { ConntrackSocket } from "../../lib/netlink/mod.ts";
import type { EgressServer } from "../../lib/egress/mod.ts";
import { gatewayReport } from "../../roles/coil_egress/observe/gateway_status.ts";
import { eventually } from "../lab/wait.ts";
import { ipPacket, PROTOCOLS, sendRaw, udp } from "../netns/raw_packets.ts";
import { run } from "../netns/testing.ts";
import {
  ADDRESSES,
  CLIENTS,
  counted,
  type EgressLab,
  egressLab,
  makeClient,
  OURS,
  PORT,
} from "./egress_server_lab.ts";
import { kernelWithout } from "./kernel_modules.ts";

const PATIENCE = { timeoutMs: 60_000 };
/** Another client. */
const SECOND = { ipv4: "10.1.1.3", ipv6: "fd01:1::3" } as const;
const ALL = [...CLIENTS, ...Object.values(SECOND).map((a) => Address.parse(a))];
const MAX = "net.netfilter.nf_conntrack_max";
const UNANSWERED = "net.netfilter.nf_conntrack_udp_timeout";

/** A datagram of one flow, as it comes out of a client's tunnel device. */
function flow(
  client: Readonly<Record<Family, string>>,
  family: Family,
  port: number,
): Uint8Array {
  const protocol = PROTOCOLS.udp;
  const path = {
    source: client[family],
    destination: ADDRESSES.outside[family],
  };
  const inner = ipPacket(path, udp(path, [port, 9]), { protocol });
  return tunnelled(client[family], family, inner);
}

function tunnelled(from: string, family: Family, inner: Uint8Array) {
  const path = { source: from, destination: ADDRESSES.gateway[family] };
  const datagram = udp(path, [40_000, PORT], inner);
  return ipPacket(path, datagram, { protocol: PROTOCOLS.udp });
}

/** Flows from these ports, both included. */
function flows(
  client: Readonly<Record<Family, string>>,
  [first, last]: readonly [number, number],
  families: readonly Family[] = ["ipv4"],
): Uint8Array[] {
  return families.flatMap((family) =>
    Array.from(
      { length: last - first + 1 },
      (_, i) => flow(client, family, first + i),
    )
  );
}

/** Puts packets on the gateway's link, and waits until it has decided about all of them. */
async function sendAndAwait(
  { router, gateway }: EgressLab,
  server: EgressServer,
  packets: readonly Uint8Array[],
): Promise<void> {
  const decided = async () =>
    Object.values(await counted(server)).reduce((a, b) => a + b, 0);
  const before = await decided();
  const [row] = await gateway.ipJson("link", "show", "dev", "eth0");
  const mac = String(row?.["address"]);
  await sendRaw(router, { name: "gateway", mac }, packets);
  await eventually(
    `${packets.length} packets to be decided about`,
    async () => await decided() - before >= packets.length,
    PATIENCE,
  );
}

/** How many connections a client has. */
async function flowsOf({ netns }: EgressLab, address: string): Promise<number> {
  using conntrack = ConntrackSocket.open({ netns });
  const family = address.includes(":") ? "ipv6" : "ipv4";
  let found = 0;
  await conntrack.visit(({ originalSource, protocol }) => {
    if (protocol !== PROTOCOLS.udp) return;
    if (originalSource.toString() === address) found++;
  }, { family });
  return found;
}

/** A lab whose gateway keeps flows that have no answer for longer than the test takes; by default half a minute. */
async function capacityLab(): Promise<EgressLab> {
  await using undo = new AsyncDisposableStack();
  const lab = undo.use(await egressLab());
  await lab.gateway.exec("sysctl", "-qw", `${UNANSWERED}=3600`);
  undo.move();
  return lab;
}

/** Sets how many connections the kernel tracks, until disposed. */
async function conntrackMax(max: number): Promise<AsyncDisposable> {
  const before = (await run("sysctl", ["-n", MAX])).trim();
  await run("sysctl", ["-qw", `${MAX}=${max}`]);
  return {
    [Symbol.asyncDispose]: async () =>
      void await run("sysctl", ["-qw", `${MAX}=${before}`]),
  };
}

Deno.test("a client that opens all it can leaves room for others, and is named", async () => {
  await using _max = await conntrackMax(600);
  await using lab = await capacityLab();
  const server = await lab.open();
  await server.setClients(ALL);
  assert.deepEqual(server.limits, { flows: 150, isSupported: true });
  for (const family of FAMILIES) {
    const hostile = flows(ADDRESSES.client, [2000, 2598], [family]);
    await sendAndAwait(lab, server, hostile);
    assert.equal(await flowsOf(lab, ADDRESSES.client[family]), 150);
    const other = flows(SECOND, [2000, 2049], [family]);
    await sendAndAwait(lab, server, other);
    assert.equal(await flowsOf(lab, SECOND[family]), 50);
  }
  const { "limited ipv4": ipv4, "limited ipv6": ipv6 } = await counted(server);
  assert.deepEqual([ipv4, ipv6], [449, 449]);
  const limited = await server.limitedClients();
  assert.deepEqual(
    limited.map(String).toSorted(),
    Object.values(ADDRESSES.client).toSorted(),
  );
  const { clients } = await server.flows();
  assert.equal(clients[0]?.flows, 150);
});

Deno.test("a gateway follows a change of nf_conntrack_max, and a choice, no matter who opens it again", async () => {
  await using lab = await capacityLab();
  {
    await using _max = await conntrackMax(400);
    const server = await lab.open();
    await server.setClients(ALL);
    await sendAndAwait(lab, server, flows(ADDRESSES.client, [2000, 2150]));
    assert.equal(await flowsOf(lab, ADDRESSES.client.ipv4), 100);
  }
  await using _max = await conntrackMax(800);
  const server = await lab.open();
  await server.setClients(ALL);
  assert.deepEqual(server.limits, { flows: 200, isSupported: true });
  // What was there is not counted any more.
  await sendAndAwait(lab, server, flows(ADDRESSES.client, [3000, 3299]));
  assert.equal(await flowsOf(lab, ADDRESSES.client.ipv4), 300);
  const chosen = await lab.open({ maxFlowsPerClient: 0 });
  assert.deepEqual(chosen.limits, { isSupported: true });
  await sendAndAwait(lab, chosen, flows(ADDRESSES.client, [4000, 4299]));
  assert.equal(await flowsOf(lab, ADDRESSES.client.ipv4), 600);
  assert.deepEqual(await chosen.limitedClients(), []);
});

Deno.test("source ports to one destination are reported before they run out", async () => {
  await using lab = await capacityLab();
  const server = await lab.open();
  await server.setClients(ALL);
  // Those below 512 are 511: filled as quickly as the others would be slowly.
  const status = async () => {
    const report = gatewayReport({
      draining: false,
      losses: { list: () => [], suspects: () => [] },
      translated: { list: () => [] },
      limited: {
        names: () => [],
        limits: server.limits,
        nameOf: String,
      },
      readings: {
        nodes: undefined,
        conntrack: await server.conntrack(),
        flows: await server.flows(),
      },
    });
    const egress = {
      apiVersion: "coil.cybozu.com/v2" as const,
      kind: "Egress" as const,
      metadata: { name: "nat", namespace: "internet" },
      spec: { destinations: ["0.0.0.0/0"] },
    };
    const { conditions } = egressStatus(egress, {
      problems: [],
      clients: 1,
      now: new Date(),
      gateways: [{ name: "nat-1", ...report }],
    });
    const condition = conditions?.find(({ type }) => type === "CapacityLow");
    return condition?.message;
  };
  await sendAndAwait(lab, server, flows(ADDRESSES.client, [1, 400]));
  assert.equal(await status(), "Every gateway has room for more connections");
  await sendAndAwait(lab, server, flows(ADDRESSES.client, [401, 420]));
  assert.match(
    await status() ?? "",
    new RegExp(
      `ports to ${ADDRESSES.outside.ipv4}(:\\d+)?, the most for ${ADDRESSES.client.ipv4}`,
    ),
  );
  // Nobody is refused yet.
  await sendAndAwait(lab, server, flows(ADDRESSES.client, [421, 500]));
  assert.equal(await flowsOf(lab, ADDRESSES.client.ipv4), 500);
  assert.equal((await counted(server))["limited ipv4"], undefined);
  // Then they do run out, though none of them is refused by a rule.
  await sendAndAwait(lab, server, flows(SECOND, [1, 100]));
  assert.ok(await flowsOf(lab, SECOND.ipv4) <= 11);
});

Deno.test("a kernel that cannot count connections has a gateway all the same, which says so", async () => {
  {
    // Everything else that a gateway needs is in the kernel then.
    await using lab = await capacityLab();
    await (await lab.open()).setClients(ALL);
  }
  await using bare = await kernelWithout("nft_connlimit");
  await using lab = await capacityLab();
  const server = await lab.open();
  await server.setClients(ALL);
  assert.deepEqual(server.limits, { isSupported: false });
  assert.deepEqual(await server.limitedClients(), []);
  await sendAndAwait(
    lab,
    server,
    flows(ADDRESSES.client, [2000, 2019], FAMILIES),
  );
  assert.equal(await flowsOf(lab, ADDRESSES.client.ipv4), 20);
  await bare.repair();
  await server.setClients(ALL);
  assert.equal(server.limits.isSupported, true);
});

Deno.test("a flood of strangers' datagrams takes nothing from clients but the processor's time", async (t) => {
  await using lab = await egressLab();
  const server = await lab.open();
  await makeClient(lab.client, OURS);
  await server.setClients(CLIENTS);
  const quiet: number[] = [];
  const flooded: number[] = [];
  const FLOOD = 2000;
  await pings(lab); // the first ones find the way
  for (let round = 0; round < 5; round++) {
    quiet.push(...await pings(lab));
    const flood = sendAndAwait(lab, server, strangers(round, FLOOD));
    flooded.push(...await pings(lab));
    await flood;
  }
  // Pings have been decided about, too: the last datagrams may not be yet.
  await eventually("all of the flood to be counted", async () => {
    const { foreignFou } = await server.readCounters();
    assert.equal(foreignFou.ipv4?.packets, BigInt(5 * FLOOD));
    return true;
  }, PATIENCE);
  // Each datagram was tracked for a moment at most: the clients' table is as it was.
  const { entries } = await server.conntrack();
  assert.ok(entries < 100, `${entries} entries`);
  const ratio = median(flooded) / median(quiet);
  await t.step(
    `median round trip ${median(quiet)} ms, and ${
      median(flooded)
    } ms under flood: ${
      ratio.toFixed(2)
    } times (generator and gateway share the processors)`,
    () => {},
  );
});

/** Datagrams for the tunnel from ever other ports of somebody who is no client. */
function strangers(round: number, count: number): Uint8Array[] {
  const inner = new Uint8Array(64);
  const path = {
    source: ADDRESSES.stranger.ipv4,
    destination: ADDRESSES.gateway.ipv4,
  };
  return Array.from(
    { length: count },
    (_, i) =>
      ipPacket(path, udp(path, [1024 + round * count + i, PORT], inner), {
        protocol: PROTOCOLS.udp,
      }),
  );
}

/** Round trips of a client through the gateway, in ms; all of them have to be answered. */
async function pings({ client }: EgressLab): Promise<number[]> {
  const text = await client.exec(
    "ping",
    ...["-c20", "-i0.02", "-W30", ADDRESSES.outside.ipv4],
  );
  const times = [...text.matchAll(/time=([\d.]+) ms/g)].map(([, ms]) =>
    Number(ms)
  );
  assert.equal(times.length, 20, text);
  return times;
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[values.length >> 1] ?? NaN;
}
