import assert from "node:assert/strict";
import { Address, mapDualStack, Prefix } from "../../inet/mod.ts";
import { ERRNO } from "../../linux/mod.ts";
import type { ConntrackFlow, Link, Route } from "../../netlink/mod.ts";
import { planServer } from "../gateway_plan/plan.ts";
import { EgressServer } from "./server.ts";
import { FakeServerKernel } from "./testing.ts";

const OWN = Address.parse("10.1.2.2");
const [A = OWN, B = OWN, C = OWN] = ["10.1.1.2", "10.1.1.3", "10.1.1.4"]
  .map(Address.parse);
const STRANGER = Address.parse("fd01::2");

/** A gateway for IPv4 in a kernel that keeps routes to its clients as they are set. */
async function open() {
  const planned = planServer({
    addresses: { ipv4: OWN },
    ifname: "eth0",
    mtu: 1500,
    port: 5555,
    sourcePortAuto: true,
  });
  const plan = {
    ...planned,
    families: mapDualStack(planned.families, (family) => ({
      ...family,
      sysctls: [],
    })),
  };
  const { ipv4 } = plan.families;
  assert.ok(ipv4);
  const fake = new FakeServerKernel();
  const { name, tunnel, mtu = 0 } = ipv4.link;
  const both = { up: true, lowerUp: true, group: 0, flags: 0 };
  const links: Link[] = [
    { index: 2, name: "eth0", mtu: 1500, ...both },
    { index: 4, name, kind: tunnel.kind, tunnel, mtu, ...both },
  ];
  fake.links = links;
  fake.rules = [ipv4.rule];
  fake.ports = [ipv4.fouPort];
  fake.sets = { clients4: [] };
  const own = { table: 118, protocol: 30, family: "ipv4" } as const;
  const refusal: Route = {
    ...own,
    destination: undefined,
    metric: 4096,
    scope: "global",
    type: "unreachable",
  };
  fake.routes = [refusal];
  const server = await EgressServer.over(fake.kernel, plan);
  fake.done.length = 0;
  fake.after = (done) => {
    const [, verb, text] = /^(replace|delete) route "(.+\/32)"/.exec(done) ??
      [];
    if (text === undefined) return;
    const destination = Prefix.parse(text);
    fake.routes = fake.routes.filter((route) =>
      `${route.destination}` !== text
    );
    if (verb === "delete") return;
    fake.routes.push({
      ...own,
      destination,
      index: 4,
      scope: "link",
      type: "unicast",
    });
  };
  return { fake, server, refusal };
}

function texts(addresses: readonly Address[]): string {
  return addresses.map(String).join(" ");
}

Deno.test("setClients() makes exactly these the clients, and returns those added, removed and left out", async () => {
  const { fake, server } = await open();
  const first = await server.setClients([A, B, OWN, STRANGER]);
  assert.equal(texts(first.added), "10.1.1.2 10.1.1.3");
  assert.deepEqual(
    first.skipped.map(({ address, reason }) => `${address} ${reason}`),
    ["10.1.2.2 own", "fd01::2 family"],
  );
  assert.equal(server.clientCount, 2);
  const second = await server.setClients([B, C]);
  assert.equal(texts(second.added), "10.1.1.4");
  assert.equal(texts(second.removed), "10.1.1.2");
  assert.equal(texts(fake.sets?.["clients4"] ?? []), "10.1.1.3 10.1.1.4");
  assert.equal(server.clientCount, 2);
  const third = await server.setClients([B, C]);
  assert.equal(third.added.length + third.removed.length, 0);
});

Deno.test("changeClients() adds and removes without looking at the others; who is in both is a client", async () => {
  const { fake, server } = await open();
  await server.setClients([A, B]);
  fake.done.length = 0;
  const { added, removed } = await server.changeClients({
    add: [B, C],
    remove: [A, B, STRANGER],
  });
  assert.equal(texts(added), "10.1.1.4");
  assert.equal(texts(removed), "10.1.1.2");
  assert.equal(server.clientCount, 2);
  assert.deepEqual(fake.done, [
    'replace route "10.1.1.4/32" to table 118',
    "set clients4 +1 -1",
    'delete route "10.1.1.2/32" from table 118',
    "forget ipv4",
  ]);
  const again = await server.changeClients({ remove: [A] });
  assert.equal(again.removed.length, 0);
});

Deno.test("a change that fails half-way is made whole by the next, and forgets the connections of who has gone", async () => {
  const { fake, server } = await open();
  await server.setClients([A, B]);
  fake.refusals["forget ipv4"] = ERRNO.ENOMEM;
  await assert.rejects(server.changeClients({ remove: [A] }));
  assert.equal(server.clientCount, 0, "nobody knows");
  // What is in the table is not compared with what nobody knows.
  fake.table = "other";
  assert.deepEqual(await server.findDamage({ table: true }), []);
  delete fake.refusals["forget ipv4"];
  fake.done.length = 0;
  await server.changeClients({ add: [C] });
  assert.equal(fake.done[0], "replace table with limits");
  assert.ok(fake.done.includes("forget ipv4"));
  assert.equal(server.clientCount, 2);
});

Deno.test("findDamage() looks at the table only when it is asked to", async () => {
  const { fake, server } = await open();
  await server.setClients([A]);
  // As the kernel has it after the change of its sets.
  await server.setClients([A]);
  assert.deepEqual(await server.findDamage({ table: true }), []);
  fake.table = "other";
  assert.deepEqual(await server.findDamage(), []);
  assert.deepEqual(await server.findDamage({ table: true }), [
    'nftables table "inet coil" was changed',
  ]);
  fake.routes = fake.routes.filter(({ type }) => type !== "unicast");
  assert.deepEqual(await server.findDamage(), [
    "route to client 10.1.1.2 is missing",
  ]);
});

Deno.test("clear() leaves no client", async () => {
  const { fake, server } = await open();
  await server.setClients([A]);
  await server.clear();
  assert.equal(server.clientCount, 0);
  assert.equal(fake.done.at(-1), "delete table");
});

Deno.test("a gateway's counters, connections and limits are the kernel's", async () => {
  const { fake, server } = await open();
  await server.setClients([A, B]);
  assert.deepEqual(await server.conntrack(), { entries: 7, max: 262_144 });
  assert.equal(server.limits.flows, 65_536);
  const names = ["masqueraded", "invalid", "unsolicited", "foreign_fou"];
  fake.counters = new Map([...names, "limited"].map((name, n) => [
    ...[`${name}_ipv4`, { packets: BigInt(n + 1), bytes: 9n }] as const,
  ]));
  const counters = Object.values(await server.readCounters());
  const packets = counters.map(({ ipv4 }) => Number(ipv4?.packets));
  assert.deepEqual(packets, [1, 2, 3, 4, 5]);
  fake.counters = new Map();
  const { invalid } = await server.readCounters();
  assert.deepEqual(invalid, { ipv4: { packets: 0n, bytes: 0n } });
  fake.sets = { ...fake.sets, refused4: [B] };
  assert.deepEqual(await server.limitedClients(), [B]);
  const flow: ConntrackFlow = {
    family: "ipv4" as const,
    protocol: 17,
    status: 0x10 | 0x04,
    mark: 0,
    originalSource: A,
    originalDestination: C,
    replySource: C,
    replyDestination: OWN,
    originalSourcePort: 1,
    timeoutSeconds: 1,
    originalDestinationPort: 53,
    replySourcePort: 53,
    replyDestinationPort: 2_000,
    tcpState: undefined,
  };
  fake.flows = [flow, { ...flow, originalSource: C }];
  const { flows, ports } = await server.flows();
  assert.deepEqual([flows, ports.map(({ port }) => port)], [1, [53]]);
  assert.deepEqual((await server.flows({ top: 0 })).ports, []);
  server[Symbol.dispose]();
  assert.equal(fake.done.at(-1), "close");
});
