import assert from "node:assert/strict";
import { Address, Prefix } from "../../inet/mod.ts";
import type { Netns } from "../../linux/mod.ts";
import type { Link, Route, Rule } from "../../netlink/mod.ts";
import { addressEntry } from "../../netlink/testing.ts";
import type { Filters } from "../kernel/ports.ts";
import { hostEndName } from "../plan/veth.ts";
import { FakeNetwork, linkOf, type NetworkState } from "../testing.ts";
import { detach } from "./teardown.ts";

const CONTAINER = "cid";
const END = 7;
const [ETH0, NET1, VETH] = [2, 4, 3] as const;
const NAME = await hostEndName(CONTAINER);
const PAIR = linkOf(END, { name: NAME, alias: `COIL-COORD:${CONTAINER}:eth0` });

function route(text: string, changes: Partial<Route> = {}): Route {
  return {
    family: "ipv4",
    destination: Prefix.parse(text),
    index: END,
    table: 500,
    protocol: 32,
    scope: "link",
    type: "unicast",
    ...changes,
  };
}

/** A rule of an interface's own table. */
function nicRule(source: string, table: number): Rule {
  return {
    family: "ipv4",
    priority: 1000 + table,
    table,
    protocol: 32,
    source: Prefix.parse(source),
  };
}

/** An underlay pod with two interfaces. */
function pod(): NetworkState {
  return {
    links: [
      linkOf(1, { name: "lo" }),
      linkOf(9, { name: "tunl0" }),
      linkOf(ETH0, { name: "eth0" }),
      linkOf(NET1, { name: "net1" }),
      linkOf(VETH, { name: "veth0", peerIndex: END }),
    ],
    addresses: [
      addressEntry(ETH0, "10.6.0.100/24"),
      addressEntry(NET1, "10.7.0.100/24"),
    ],
    rules: [
      nicRule("10.7.0.100/32", 101),
      { ...nicRule("10.7.0.100/32", 101), protocol: 3 },
      { family: "ipv4", priority: 1000, table: 100, protocol: 32, fwmark: 1 },
    ],
    routes: [
      route("10.6.0.10/32", { index: VETH, table: 100 }),
      route("10.6.0.10/32", { index: VETH, table: 254 }),
      route("10.6.0.0/24", { index: ETH0, table: 200 }),
      route("10.7.0.0/24", { index: NET1, table: 101 }),
      route("10.7.0.1/32", { index: NET1, table: 101, protocol: 3 }),
    ],
    neighbours: [],
  };
}

/** The host, with what it has of both interfaces. */
function host(changes: Partial<NetworkState> = {}): Partial<NetworkState> {
  return {
    links: [PAIR],
    routes: [
      route("10.6.0.100/32"),
      route("10.7.0.100/32"),
      route("10.7.0.100/32", { index: 8 }),
    ],
    ...changes,
  };
}

/** Detaches an interface; what is sent to both sides, and what else is done. */
async function detached(
  ifname: string,
  { of = host(), inside, addresses = [], firstEnd }: {
    readonly of?: Partial<NetworkState>;
    readonly inside?: NetworkState;
    readonly addresses?: readonly string[];
    readonly firstEnd?: Link;
  },
) {
  const onHost = new FakeNetwork(of);
  const inPod = new FakeNetwork(inside ?? {});
  const done: string[] = [];
  const filters = {
    deleteTable: (name: string) => Promise.resolve(done.push(name) > 0),
  } as Partial<Filters> as Filters; // all that is used
  const netns = {} as Netns; // handed on
  await detach(
    {
      discard: ({ index }) => Promise.resolve(void done.push(`husk ${index}`)),
      findHostEnd: ({ link }) =>
        Promise.resolve(link.name === "eth0" ? firstEnd : undefined),
      warn: (message) => assert.fail(message),
    },
    { host: onHost, ...inside && { pod: inPod, netns, filters } },
    {
      containerId: CONTAINER,
      ifname,
      firstNic: "eth0",
      addresses: addresses.map((text) => Address.parse(text)),
    },
  );
  return { host: onHost.sent, pod: inPod.sent, done };
}

const NET1_ON_HOST = [
  'delete route "10.7.0.100/32" from table 500',
  'delete neighbour "10.7.0.100" of link 7',
];
const NET1_IN_POD = [
  'delete ipv4 rule "1101: from 10.7.0.100/32 lookup 101 proto 32"',
  // With the last other interface the first one needs no table of its own.
  'delete route "10.6.0.0/24" from table 200',
  'delete route "10.7.0.0/24" from table 101',
];

Deno.test("detach() takes what is one interface's own, and leaves the pair to the others", async () => {
  const found = await detached("net1", { inside: pod() });
  assert.deepEqual(found, { host: NET1_ON_HOST, pod: NET1_IN_POD, done: [] });
});

Deno.test("detach() takes what is of an interface that is gone by the rules of addresses that no interface has", async () => {
  const inside = pod();
  inside.links = inside.links.filter(({ name }) => name !== "net1");
  inside.addresses = inside.addresses.filter(({ index }) => index !== NET1);
  // Its routes went with it.
  inside.routes = inside.routes.filter(({ index }) => index !== NET1);
  const byVeth = route("10.6.0.10/32", { index: VETH, table: 101 });
  inside.routes.push(byVeth);
  // Another interface that is there.
  inside.links.push(linkOf(5, { name: "net2" }));
  inside.addresses.push(addressEntry(5, "10.8.0.100/24"));
  inside.rules.push(nicRule("10.8.0.100/32", 102));
  inside.routes.push(route("10.8.0.0/24", { index: 5, table: 102 }));
  assert.deepEqual(await detached("net1", { inside }), {
    host: NET1_ON_HOST,
    pod: [
      'delete ipv4 rule "1101: from 10.7.0.100/32 lookup 101 proto 32"',
      'delete route "10.6.0.10/32" from table 101',
    ],
    done: [],
  });
});

Deno.test("detach() takes the pair with the interface that it was made for, and all that leads there", async () => {
  const { host, pod: inPod, done } = await detached("eth0", { inside: pod() });
  assert.deepEqual(host, [
    "set link 7",
    'delete route "10.6.0.100/32" from table 500',
    'delete route "10.7.0.100/32" from table 500',
  ]);
  assert.deepEqual(inPod, [
    'delete ipv4 rule "1000: from all fwmark 0x1 lookup 100 proto 32"',
    'delete route "10.6.0.10/32" from table 100',
    'delete route "10.6.0.0/24" from table 200',
    'delete route "10.6.0.10/32" from table 254',
    'delete neighbour "10.6.0.10" of link 3',
  ]);
  assert.deepEqual(done, ["coil-coordinator", "husk 7"]);
});

Deno.test("detach() empties the first interface's table, and in overlay that of all, with the last other interface", async () => {
  const emptied = async (...others: readonly Rule[]) => {
    const inside = pod();
    inside.links = inside.links.filter(({ name }) => name !== "veth0");
    inside.addresses.push(addressEntry(5, "10.8.0.100/24")); // net2's
    inside.rules = [nicRule("10.7.0.100/32", 101), ...others];
    inside.routes = [100, 101, 200].map((table) =>
      route("10.5.0.0/16", { index: ETH0, table })
    );
    const { pod: sent } = await detached("net1", { inside });
    return sent.flatMap((text) =>
      /delete route .* table (\d+)/.exec(text)?.[1] ?? []
    );
  };
  assert.deepEqual(await emptied(), ["100", "101", "200"]);
  // Of net2, of the first interface, and of another program.
  const ofNet2 = nicRule("10.8.0.100/32", 102);
  assert.deepEqual(await emptied(ofNet2), ["101"]);
  for (const table of [100, 200]) {
    const ofFirst = nicRule("10.6.0.100/32", table);
    assert.deepEqual(await emptied(ofFirst), ["100", "101", "200"], `${table}`);
  }
  assert.equal((await emptied({ ...ofNet2, protocol: 3 })).length, 3);
});

Deno.test("detach() takes the pair with the last interface", async () => {
  const inside = pod();
  inside.links = inside.links.map((link) =>
    link.name === "eth0" ? { ...link, up: false } : link
  );
  const { done } = await detached("net1", { inside });
  assert.deepEqual(done, ["coil-coordinator", "husk 7"]);
});

Deno.test("detach() goes by the result of ADD where the namespace is gone", async () => {
  const addresses = ["10.7.0.100"];
  assert.deepEqual(await detached("net1", { addresses }), {
    host: NET1_ON_HOST,
    pod: [],
    done: [],
  });
  const { host, done } = await detached("eth0", {});
  assert.equal(host.length, 3);
  assert.deepEqual(done, ["husk 7"]);
});

Deno.test("detach() finds the table of an interface that is gone by each address that ADD has given it", async () => {
  const inside = pod();
  inside.links = inside.links.filter(({ index }) => index !== NET1);
  inside.addresses = inside.addresses.filter(({ index }) => index !== NET1);
  const addresses = ["10.7.0.100", "fd00:10:7::100"];
  const { pod: sent } = await detached("net1", { inside, addresses });
  assert.deepEqual(sent, NET1_IN_POD);
});

Deno.test("detach() deletes what a DEL that was killed has cut off, and no other container's pair", async () => {
  const husk = { ...PAIR, alias: `COIL-COORD-HUSK:${CONTAINER}:eth0` };
  assert.deepEqual(await detached("eth0", { of: { links: [husk] } }), {
    host: [],
    pod: [],
    done: ["husk 7"],
  });
  for (const alias of ["COIL-COORD:other:eth0", "COIL-COORD-HUSK:other:eth0"]) {
    const of = { links: [{ ...PAIR, alias }] };
    const { host, done } = await detached("eth0", { of });
    assert.deepEqual([host, done], [[], []], alias);
  }
});

Deno.test("detach() forgets addresses at the end of the first interface where there is no pair", async () => {
  const inside = pod();
  inside.links = inside.links.filter(({ name }) => name !== "veth0");
  const firstEnd = linkOf(8, { name: "cali1" });
  const found = await detached("net1", {
    inside,
    of: host({ links: [] }),
    firstEnd,
  });
  assert.deepEqual(found.host, [
    'delete route "10.7.0.100/32" from table 500',
    'delete neighbour "10.7.0.100" of link 8',
  ]);
});

Deno.test("detach() gives an interface the default route back that it gave to the one that goes, where there is no other", async () => {
  const byNet1 = route("0.0.0.0/0", {
    destination: undefined,
    gateway: Address.parse("10.7.0.1"),
    index: NET1,
    table: 254,
    protocol: 3,
  });
  const moved = { ...byNet1, index: ETH0, table: 200, protocol: 32 };
  const restored = async (...defaults: readonly Route[]) => {
    const inside = pod();
    inside.routes = [...defaults];
    const { pod: sent } = await detached("net1", { inside });
    return sent.filter((request) => request.startsWith("add route"));
  };
  const again = ['add route "default" to table 254'];
  assert.deepEqual(await restored(byNet1, moved), again);
  assert.deepEqual(await restored(moved), again);
  assert.deepEqual(await restored(byNet1), []);
  // Another program's, another interface's, and the host's.
  assert.deepEqual(await restored({ ...moved, protocol: 3 }), []);
  assert.deepEqual(await restored(moved, { ...byNet1, index: ETH0 }), []);
  assert.deepEqual(await restored({ ...moved, index: VETH }), []);
  const hops = [{ index: NET1 }, { index: ETH0 }];
  assert.deepEqual(await restored(moved, { ...byNet1, hops }), []);
});
