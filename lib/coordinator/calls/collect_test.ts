import assert from "node:assert/strict";
import { Prefix } from "../../inet/mod.ts";
import type { Netns } from "../../linux/mod.ts";
import type { Link, Route } from "../../netlink/mod.ts";
import { addressEntry } from "../../netlink/testing.ts";
import type { Outside } from "../kernel/ports.ts";
import { FakeNetwork, linkOf, type NetworkState } from "../testing.ts";
import { collect } from "./collect.ts";

const END = 7;
const VALID = [{ containerId: "other", ifname: "eth0" }];
const PAIR = linkOf(END, { alias: "COIL-COORD:cid:eth0", peerIndex: 3 });

function route(address: string, index = END): Route {
  return {
    family: "ipv4",
    destination: Prefix.parse(`${address}/32`),
    index,
    table: 500,
    protocol: 32,
    scope: "link",
    type: "unicast",
  };
}

/** Collects on a host with these links and routes, whose pairs lead to this pod; what was done. */
async function collected(
  host: Partial<NetworkState>,
  pod: Partial<NetworkState> | undefined,
  valid = VALID,
): Promise<{ sent: string[]; discarded: string[]; kept: unknown[] }> {
  const network = new FakeNetwork(host);
  const discarded: string[] = [];
  const kept: unknown[] = [];
  const netns = { [Symbol.dispose]() {} } as Netns; // all that is used
  const outside = {
    openNamespaces: () => ({
      ofPeer: () => Promise.resolve(pod && netns),
      [Symbol.dispose]() {},
    }),
    openRoutes: () => new FakeNetwork(pod ?? {}),
    discard: ({ containerId, index }) =>
      Promise.resolve(void discarded.push(`${containerId} ${index}`)),
    warn: (_message, { link }) => kept.push(link),
  } as Pick<
    Outside,
    "openNamespaces" | "openRoutes" | "discard" | "warn"
  > as Outside; // all that is used
  await collect(outside, network, valid);
  return { sent: network.sent, discarded, kept };
}

const podEnd = (changes: Partial<Link> = {}) =>
  linkOf(3, { name: "veth0", peerIndex: END, ...changes });
const NIC = linkOf(2, { name: "eth0" });
/** The pod without the interface that its pair was made for. */
const LOST: Partial<NetworkState> = { links: [podEnd()] };

Deno.test("collect() takes the pair of a container that is in no list and has lost its interface", async () => {
  const { sent, discarded, kept } = await collected({ links: [PAIR] }, LOST);
  assert.deepEqual(sent, ["set link 7"]);
  assert.deepEqual([discarded, kept], [["cid 7"], []]);
});

Deno.test("collect() keeps a pair in doubt, and says which", async () => {
  const host = { links: [PAIR] };
  const living = { links: [NIC, podEnd()] };
  const asIs = { sent: [], discarded: [], kept: ["link7"] };
  assert.deepEqual(await collected(host, living), asIs);
  assert.deepEqual(await collected(host, undefined), asIs);
  // Its number was given to another namespace.
  const other = { links: [podEnd({ peerIndex: 8 })] };
  assert.deepEqual(await collected(host, other), asIs);
});

Deno.test("collect() leaves pairs of valid containers and links of others alone", async () => {
  const nothing = { sent: [], discarded: [], kept: [] };
  const own = [{ containerId: "cid", ifname: "net1" }];
  assert.deepEqual(await collected({ links: [PAIR] }, LOST, own), nothing);
  assert.deepEqual(await collected({ links: [linkOf(END)] }, LOST), nothing);
});

Deno.test("collect() has the pairs deleted that are cut off", async () => {
  const husk = linkOf(9, { alias: "COIL-COORD-HUSK:gone:eth0" });
  const { discarded } = await collected({ links: [husk] }, undefined);
  assert.deepEqual(discarded, ["gone 9"]);
});

Deno.test("collect() forgets addresses that no interface of the pod has any longer", async () => {
  const host = {
    links: [PAIR],
    routes: [
      route("10.6.0.100"),
      route("10.7.0.100"),
      route("10.8.0.100", 8),
      { ...route("10.9.0.100"), protocol: 3 },
    ],
  };
  const own = [{ containerId: "cid", ifname: "eth0" }];
  const pod = {
    links: [NIC, podEnd()],
    addresses: [
      addressEntry(2, "10.6.0.100/24"),
      addressEntry(2, "10.6.0.200/24"),
    ],
  };
  assert.deepEqual((await collected(host, pod, own)).sent, [
    'delete route "10.7.0.100/32" from table 500',
    'delete neighbour "10.7.0.100" of link 7',
  ]);
  assert.deepEqual((await collected(host, undefined, own)).sent, []);
});
