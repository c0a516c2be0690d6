import assert from "node:assert/strict";
import { Address, FAMILIES, type Family } from "../../lib/inet/mod.ts";
import type { TempNetns } from "../netns/testing.ts";
import type { EgressServer, FlowSummary } from "../../lib/egress/mod.ts";
import { eventually } from "../lab/wait.ts";
import { say } from "../runner/output.ts";
import {
  ADDRESSES,
  CLIENTS,
  type EgressLab,
  egressLab,
  expectCounted,
  makeClient,
  OURS,
  PORT,
  shell,
} from "./egress_server_lab.ts";

/** How long anything may take: the machine may have much else to do. */
const PATIENCE_MS = 60_000;

/** Bytes of the inner IP and UDP headers. */
const HEADERS: Readonly<Record<Family, number>> = { ipv4: 28, ipv6: 48 };

Deno.test("W41: a client learns that the path outside is narrow", async () => {
  await using lab = await egressLab({ servers: true });
  const server = await lab.open();
  await makeClient(lab.client, OURS);
  await server.setClients(CLIENTS);
  await narrow(lab.router, lab.outside, "outside");
  for (const family of FAMILIES) {
    const outside = ADDRESSES.outside[family];
    const { stdout } = await lab.client.tryExec(
      "ping",
      ...["-Mdo", "-c1", "-W60", "-s1400", outside],
    );
    assert.match(stdout, /mtu ?= ?1400/i);
    assert.equal(await pathMtu(lab.client, outside), 1400);
    const seen = await lab.ask(lab.client, family, 200_000);
    assert.equal(seen, ADDRESSES.gateway[family]);
  }
});

Deno.test("W41: outside learns how much the tunnel has room for", async () => {
  await using lab = await egressLab({ servers: true });
  const server = await lab.open();
  await makeClient(lab.client, OURS);
  await server.setClients(CLIENTS);
  for (const [family, mtu] of [["ipv4", 1472], ["ipv6", 1452]] as const) {
    const size = mtu + 1 - HEADERS[family];
    assert.ok(await udpAnswer(lab.client, family, size - 1), "fits");
    await outsideLearns(lab, { family, size, mtu });
    assert.ok(await udpAnswer(lab.client, family, size), "in fragments");
  }
});

Deno.test("W41: outside learns that the tunnel's own path is narrow", async () => {
  await using lab = await egressLab({ servers: true });
  const server = await lab.open();
  await makeClient(lab.client, OURS);
  await shell(
    lab.client,
    "ip link set fou4_up mtu 1372; ip link set fou6_up mtu 1352",
  );
  await server.setClients(CLIENTS);
  await narrow(lab.router, lab.client, "client");
  for (const [family, mtu] of [["ipv4", 1372], ["ipv6", 1352]] as const) {
    const size = mtu + 1 - HEADERS[family];
    assert.ok(await udpAnswer(lab.client, family, size - 1), "fits");
    // The first answer tells the gateway about the path, the second tells outside.
    await outsideLearns(lab, { family, size, mtu });
    assert.ok(await udpAnswer(lab.client, family, size), "in fragments");
    const seen = await lab.ask(lab.client, family, 200_000);
    assert.equal(seen, ADDRESSES.gateway[family]);
  }
});

/** Makes the link between the router and a host carry 1400 bytes. */
async function narrow(
  router: TempNetns,
  host: TempNetns,
  link: string,
): Promise<void> {
  await router.ip("link", "set", link, "mtu", "1400");
  await host.ip("link", "set", "eth0", "mtu", "1400");
}

async function pathMtu(
  from: TempNetns,
  to: string,
): Promise<number | undefined> {
  const text = await from.ip("route", "get", to);
  const mtu = / mtu (\d+)/.exec(text)?.[1];
  return mtu === undefined ? undefined : Number(mtu);
}

/** Lets outside send answers of that many bytes, one more than there is room for, until it knows how much there is. */
async function outsideLearns(
  { client, outside }: EgressLab,
  answer: {
    readonly family: Family;
    readonly size: number;
    readonly mtu: number;
  },
): Promise<void> {
  const { family, size, mtu } = answer;
  await eventually(`a path of ${mtu} bytes`, async () => {
    const ask = `echo ${size} >/dev/udp/${ADDRESSES.outside[family]}/7000`;
    await client.exec("bash", "-c", ask);
    return await pathMtu(outside, ADDRESSES.gateway[family]) === mtu;
  }, { timeoutMs: PATIENCE_MS });
}

/** Whether a datagram of that many bytes comes back from outside. */
async function udpAnswer(
  from: TempNetns,
  family: Family,
  size: number,
): Promise<boolean> {
  const address = ADDRESSES.outside[family];
  const { code } = await from.tryExec(
    "bash",
    "-c",
    `exec 3<>/dev/udp/${address}/7000
     echo ${size} >&3
     timeout ${PATIENCE_MS / 1000} head -c 1 <&3 | grep -q x`,
  );
  return code === 0;
}

/** Two connections to outside, open until disposed. */
function twoConnections({ client }: EgressLab): AsyncDisposable {
  const target = `/dev/tcp/${ADDRESSES.outside.ipv4}/80`;
  const child = new Deno.Command("nsenter", {
    args: [
      ...[`--net=${client.path}`, "bash", "-c"],
      `exec 3<>${target} 4<>${target}; read`,
    ],
    stdin: "piped",
  }).spawn();
  return {
    async [Symbol.asyncDispose](): Promise<void> {
      await child.stdin.close();
      await child.status;
    },
  };
}

const ICMPV6_TIMEOUT = "net.netfilter.nf_conntrack_icmpv6_timeout=3600";

Deno.test("a gateway tells which connections it has and how much of its ports they take", async () => {
  await using lab = await egressLab({ servers: true });
  const server = await lab.open();
  await makeClient(lab.client, OURS);
  await server.setClients(CLIENTS);
  const outside = ADDRESSES.outside.ipv4;
  // Forgetting an echo request takes longer than the rest of the test.
  await lab.gateway.exec("sysctl", "-qw", ICMPV6_TIMEOUT);
  {
    await using _connections = twoConnections(lab);
    await lab.client.exec("ping", "-c1", "-W60", ADDRESSES.outside.ipv6);
    const summary = await whenEstablished(server, 2);
    assert.deepEqual(
      summary.ports.map(({ protocol, destination, port, used, limit }) => [
        ...[protocol, String(destination), port],
        `${used} of ${limit}`,
      ]),
      [
        [6, outside, 80, "2 of 64512"],
        [58, ADDRESSES.outside.ipv6, 0, "1 of 65536"],
      ],
    );
    assert.equal(summary.flows, 3);
    // The datagrams of the tunnel are not among them.
    assert.equal((await server.conntrack()).entries, 3);
    assert.ok((await server.conntrack()).max > 0);
  }
  await whenEstablished(server, 0);
});

Deno.test("a client may talk from the very port that tunnels have", async () => {
  await using lab = await egressLab({ servers: true });
  const server = await lab.open();
  await makeClient(lab.client, OURS);
  await server.setClients(CLIENTS);
  // A collision of source ports can lead to it too; this makes sure.
  await shell(
    lab.client,
    `nft -f - <<END
table ip collision {
  chain postrouting {
    type nat hook postrouting priority srcnat
    udp dport 7000 snat to ${ADDRESSES.client.ipv4}:${PORT}
  }
}
END`,
  );
  assert.ok(await udpAnswer(lab.client, "ipv4", 10));
  const entries = await lab.gateway.exec("cat", "/proc/net/nf_conntrack");
  assert.match(entries, new RegExp(`dst=10.1.2.2 sport=7000 dport=${PORT} `));
  await expectCounted(server, { "masqueraded ipv4": 1 });
});

for (const count of [1000, 10_000]) {
  Deno.test(`${count} clients are taken in, found again and let go`, async () => {
    await using lab = await egressLab();
    const clients = manyClients(count);
    const times: string[] = [];
    const timed = async <T>(what: string, task: () => Promise<T>) => {
      const start = performance.now();
      const result = await task();
      times.push(`${what} ${Math.round(performance.now() - start)} ms`);
      return result;
    };
    const server = await timed("open", () => lab.open());
    const first = await timed("all", () => server.setClients(clients));
    assert.equal(first.added.length, count);
    const again = await timed("again", () => server.setClients(clients));
    assert.deepEqual([again.added, again.removed], [[], []]);
    const one = Address.parse("10.99.0.1");
    await timed("one", () => server.changeClients({ add: [one] }));
    await timed("less one", () => server.changeClients({ remove: [one] }));
    const reopened = await timed("open again", () => lab.open());
    assert.equal(reopened.clientCount, count);
    const half = clients.slice(0, count / 2);
    const { removed } = await timed("half", () => reopened.setClients(half));
    assert.equal(removed.length, count / 2);
    const routes = await shell(
      lab.gateway,
      `ip route show table 118 | grep -c coil_fou4
       ip -6 route show table 118 | grep -c coil_fou6`,
    );
    assert.equal(routes, `${count / 4}\n${count / 4}\n`);
    say(times.join(", "));
  });
}

/** Half of them IPv4, half IPv6, alternating. */
function manyClients(count: number): Address[] {
  return Array.from({ length: count }, (_, i) => {
    const base = i % 2 === 0 ? "10.8.0.1" : "fd01:8::1";
    return Address.parse(base).offset(BigInt(i >> 1));
  });
}

/** Waits until that many connections are established. */
async function whenEstablished(
  server: EgressServer,
  wanted: number,
): Promise<FlowSummary> {
  return await eventually(`${wanted} established connections`, async () => {
    const summary = await server.flows();
    return summary.established === wanted ? summary : undefined;
  }, { timeoutMs: PATIENCE_MS });
}
