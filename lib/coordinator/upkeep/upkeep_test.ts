import assert from "node:assert/strict";
import { Address, Prefix } from "../../inet/mod.ts";
import type { Netns } from "../../linux/mod.ts";
import {
  type Link,
  type Neighbour,
  NetlinkError,
  type Route,
  type Rule,
} from "../../netlink/mod.ts";
import { addressEntry, hex } from "../../netlink/testing.ts";
import { openPeers } from "../kernel/peers.ts";
import { FakeNetwork, linkOf, type NetworkState } from "../testing.ts";
import { countJoined, keepHost, keepPod } from "./upkeep.ts";

const POD = Address.parse("10.6.0.100");
const HOST = Address.parse("10.6.0.10");
const END = 7;

const RULE: Rule = { family: "ipv4", priority: 1000, table: 500, protocol: 32 };
const ROUTE: Route = {
  family: "ipv4",
  destination: Prefix.host(POD),
  index: END,
  table: 500,
  protocol: 32,
  scope: "link",
  type: "unicast",
  source: HOST,
};
const NEIGHBOUR: Neighbour = {
  index: END,
  address: POD,
  mac: "02:00:00:00:00:01",
  state: "permanent",
  protocol: 32,
};

/** A host with one joined pod. */
function joined(): NetworkState {
  return {
    links: [linkOf(2), linkOf(END, { alias: "COIL-COORD:cid:eth0" })],
    addresses: [addressEntry(2, "10.6.0.10/24")],
    rules: [RULE],
    routes: [ROUTE],
    neighbours: [NEIGHBOUR],
  };
}

const quiet = { isQuiet: () => true };
const keepHusks = { discard: () => Promise.reject(new Error("no husk")) };
const PUT_BACK = 'replace route "10.6.0.100/32" to table 500';

Deno.test("keepHost() puts back what the host lacks, and sends nothing where it lacks nothing", async () => {
  const state = joined();
  const host = new FakeNetwork(state);
  const look = () => keepHost(keepHusks, host, quiet);
  const whole = await look();
  assert.deepEqual([whole.changed, whole.isPartial, host.sent], [0, false, []]);
  assert.deepEqual(whole.hostAddresses.map(String), ["10.6.0.10"]);
  assert.deepEqual(whole.joined.map(({ index }) => index), [END]);
  state.routes = [];
  assert.equal((await look()).changed, 1);
  assert.deepEqual(host.sent, [PUT_BACK]);
});

Deno.test("keepHost() has the host send from the address that it says itself", async () => {
  const state = joined();
  const other = Address.parse("10.6.0.11");
  state.addresses.push(addressEntry(2, `${other}/24`));
  state.routes = [];
  for (const source of [HOST, other]) {
    const host = new FakeNetwork(state);
    host.source = source;
    await keepHost(keepHusks, host, quiet);
    const [bytes = ""] = host.bytes;
    const found = [HOST, other].filter((address) =>
      bytes.includes(hex(address.toBytes()))
    );
    assert.deepEqual(found, [source]);
  }
});

Deno.test("keepHost() goes by neighbours that the coordinator has made for ever, not by others", async () => {
  for (
    const changes of [{ protocol: 3 }, { state: "reachable" }] as const
  ) {
    const state = joined();
    state.routes = [];
    state.neighbours = [{ ...NEIGHBOUR, ...changes }];
    const host = new FakeNetwork(state);
    await keepHost(keepHusks, host, quiet);
    assert.deepEqual(host.sent, []);
  }
});

Deno.test("keepHost() leaves what it may have read amid a call, and says so", async () => {
  const state = joined();
  const host = new FakeNetwork(state);
  const busy = { isQuiet: () => false };
  assert.equal((await keepHost(keepHusks, host, busy)).isPartial, false);
  state.routes = [];
  const { changed, isPartial } = await keepHost(keepHusks, host, busy);
  assert.deepEqual([changed, isPartial, host.sent], [0, true, []]);
});

Deno.test("keepHost() puts nothing back of an interface that a process without coild deletes while it reads", async () => {
  const other = Address.parse("10.7.0.100");
  for (let reads = 1; reads <= 6; reads++) {
    const state = joined();
    const route = { ...ROUTE, destination: Prefix.host(other) };
    const neighbour = { ...NEIGHBOUR, address: other };
    state.routes.push(route);
    state.neighbours.push(neighbour);
    const host = new FakeNetwork(state);
    let left = reads;
    host.onRead = () => {
      if (--left > 0) return;
      // The link stays: it serves the pod's other interface.
      Object.assign(state, { routes: [route], neighbours: [neighbour] });
    };
    await keepHost(keepHusks, host, quiet);
    assert.deepEqual(host.sent, [], `after ${reads} reads`);
  }
});

Deno.test("keepHost() has the pairs deleted that were cut off", async () => {
  const state = joined();
  state.links.push(linkOf(9, { alias: "COIL-COORD-HUSK:gone:net1" }));
  const husks: unknown[] = [];
  const discard = (husk: unknown) => Promise.resolve(void husks.push(husk));
  await keepHost({ discard }, new FakeNetwork(state), quiet);
  assert.deepEqual(husks, [{ containerId: "gone", ifname: "net1", index: 9 }]);
});

Deno.test("keepHost() counts what the kernel took; what has come or gone in the meantime is no failure", async () => {
  const state = joined();
  const host = new FakeNetwork(state);
  state.routes = [];
  state.rules = [];
  const [EEXIST, ENODEV, EPERM] = [17, 19, 1];
  const look = async (errno: number) => {
    host.answer = (request) =>
      request.includes("route")
        ? new NetlinkError(request, { errno })
        : undefined;
    return (await keepHost(keepHusks, host, quiet)).changed;
  };
  assert.equal(await look(EEXIST), 1);
  assert.equal(await look(ENODEV), 1);
  await assert.rejects(look(EPERM), NetlinkError);
});

Deno.test("countJoined() counts pods, not their addresses", async () => {
  const state = joined();
  state.routes = [
    ROUTE,
    { ...ROUTE, destination: Prefix.parse("fd00::100/128"), family: "ipv6" },
    { ...ROUTE, index: 8 },
    { ...ROUTE, index: 9, protocol: 3 },
  ];
  assert.equal(await countJoined(new FakeNetwork(state)), 2);
});

/** How often a pod is asked or changed by a look, where this is inside it. */
async function looksInto(
  inside: Partial<Link>,
  hostEnd: Partial<Link> = {},
): Promise<number> {
  const pod = new FakeNetwork({
    links: [linkOf(3, { peerIndex: END, ...inside })],
    addresses: [addressEntry(3, "10.6.0.100/24")],
    rules: [],
    routes: [{
      ...ROUTE,
      destination: Prefix.host(HOST),
      index: 3,
      table: 254,
    }],
    neighbours: [],
  });
  let isOpen = false;
  const netns = {
    [Symbol.dispose]() {
      isOpen = false;
    },
  } as Netns; // all that is used
  using peers = openPeers({
    openNamespaces: () => ({
      ofPeer: () => {
        isOpen = true;
        return Promise.resolve(netns);
      },
      [Symbol.dispose]() {},
    }),
    openRoutes: () => pod,
  });
  await keepPod(peers, linkOf(END, { peerIndex: 3, ...hostEnd }), [HOST]);
  assert.equal(isOpen, false);
  return pod.sent.length;
}

Deno.test("keepPod() leaves a namespace alone in which the pair's other end is not: its number was given again", async () => {
  assert.ok(await looksInto({}) > 0);
  assert.equal(await looksInto({ kind: "bridge" }), 0);
  assert.equal(await looksInto({ peerIndex: 8 }), 0);
  assert.equal(await looksInto({ index: 4 }), 0);
  assert.equal(await looksInto({ mac: undefined }), 0);
  assert.equal(await looksInto({}, { mac: undefined }), 0);
  assert.equal(await looksInto({}, { peerIndex: undefined }), 0);
});
