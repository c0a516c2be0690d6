import assert from "node:assert/strict";
import { Address } from "../../inet/mod.ts";
import type { Netns } from "../../linux/mod.ts";
import { NetlinkError, type Route } from "../../netlink/mod.ts";
import { addressEntry } from "../../netlink/testing.ts";
import type { Filters } from "./ports.ts";
import { FakeNetwork, linkOf, type NetworkState } from "../testing.ts";
import type { Step } from "../state/steps.ts";
import {
  areRepliesMarked,
  readAddresses,
  readSides,
  readSysctls,
} from "./read.ts";

function route(changes: Partial<Route>): Route {
  return {
    family: "ipv4",
    destination: undefined,
    table: 254,
    protocol: 3,
    scope: "global",
    type: "unicast",
    ...changes,
  };
}

const HOP = { gateway: Address.parse("10.0.0.1"), weight: 1 };

/** Links 1 to 9; one that is only looked up by its number is not asked for by name. */
const LINKS = Array.from({ length: 9 }, (_, n) => linkOf(n + 1));

function network(state: Partial<NetworkState>): FakeNetwork {
  return new FakeNetwork({ links: LINKS, ...state });
}

Deno.test("readSides() reads of a pod the links that are named, and those that addresses and routes are of", async () => {
  const state = {
    addresses: [addressEntry(2, "10.2.0.1/24")],
    routes: [
      route({ index: 3 }),
      route({ hops: [{ ...HOP, index: 4 }, { ...HOP, index: 5 }] }),
      route({ type: "blackhole" }),
    ],
  };
  const pod = network(state);
  const names = new Set(["link1", "missing"]);
  const sides = await readSides({ pod, host: network({}) }, names);
  const { links, addresses, routes } = sides.pod;
  assert.deepEqual(links.map(({ index }) => index), [1, 2, 3, 4, 5]);
  assert.deepEqual([addresses, routes], [state.addresses, state.routes]);
  assert.equal(sides.hostEnd, undefined);
});

Deno.test("readSides() reads of the host the links that others can reach, and the end that is asked for", async () => {
  const host = network({
    addresses: [
      addressEntry(2, "10.2.0.1/24"),
      addressEntry(3, "169.254.0.1/16", { scope: "link" }),
    ],
  });
  const read = (hostEnd?: string) =>
    readSides({ pod: network({}), host }, new Set(), { hostEnd });
  const indexes = (side: { readonly links: readonly { index: number }[] }) =>
    side.links.map(({ index }) => index);
  const sides = await read("link7");
  assert.equal(sides.hostEnd?.index, 7);
  assert.deepEqual(indexes(sides.host), [7, 2]);
  assert.deepEqual(indexes((await read()).host), [2]);
  assert.equal((await read("missing")).hostEnd, undefined);
});

Deno.test("readAddresses() reads links once, and fails where an answer is lost", async () => {
  const addresses = [
    addressEntry(2, "10.2.0.1/24"),
    addressEntry(2, "10.2.0.2/24"),
  ];
  const pod = network({ addresses });
  const { links } = await readAddresses(pod, new Set(["link1"]));
  assert.deepEqual(links.map(({ index }) => index), [1, 2]);
  assert.deepEqual(pod.sent, ['get link "link1"', "get link 2"]);
  const lost = new NetlinkError("get", { errno: 105, lost: "answer" });
  pod.answer = () => lost;
  await assert.rejects(readAddresses(pod, new Set(["link1"])), lost);
});

Deno.test("readSysctls() reads what steps set of each side, and passes over what the kernel lacks", () => {
  const name = "net/ipv4/ip_forward";
  const sysctl = { kind: "sysctl", name, value: "1" } as const;
  const steps: Step[] = [
    { ...sysctl, place: "pod" },
    { ...sysctl, place: "pod", name: "net/ipv4/missing" },
    { ...sysctl, place: "host", name: "net/ipv4/conf/all/rp_filter" },
    { kind: "replies" },
  ];
  const here = { netns: undefined as unknown as Netns }; // this process's, as the host's is
  const values = readSysctls(here, steps);
  assert.deepEqual([...values.keys()], [
    `pod ${name}`,
    "host net/ipv4/conf/all/rp_filter",
  ]);
  assert.match(`${values.get(`pod ${name}`)}`, /^[01]$/);
});

Deno.test("areRepliesMarked() looks for the table where a step wants it", async () => {
  const isMarked = async (differences: string[], steps: readonly Step[]) => {
    const filters: Partial<Filters> = {
      compareTable: () => Promise.resolve(differences),
    };
    return await areRepliesMarked({ filters: filters as Filters }, steps); // all that is used
  };
  const wanted: Step[] = [{ kind: "replies" }];
  assert.equal(await isMarked([], wanted), true);
  assert.equal(await isMarked(["another rule"], wanted), false);
  assert.equal(await isMarked([], []), false);
});
