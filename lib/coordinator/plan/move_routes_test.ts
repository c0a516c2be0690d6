import assert from "node:assert/strict";
import { Address, Prefix } from "../../inet/mod.ts";
import { MAIN_TABLE, type Route } from "../../netlink/mod.ts";
import { addressEntry } from "../../netlink/testing.ts";
import { COORDINATOR_PROTOCOL } from "../../names/mod.ts";
import { renderPlan } from "../testing.ts";
import { planMoves } from "./move_routes.ts";

const NICS = ["eth0", "net1", "net2"];

/** The default route of an interface, by the main table or, moved by an earlier call, by its own. */
function defaultOf(nic: string, table = MAIN_TABLE): Route {
  const index = NICS.indexOf(nic);
  return {
    family: "ipv4",
    index,
    table,
    destination: undefined,
    gateway: Address.parse(`10.${index}.0.1`),
    protocol: table === MAIN_TABLE ? 3 : COORDINATOR_PROTOCOL,
    scope: "global",
    type: "unicast",
  };
}

/** What is done about default routes, or what `of` says, by an ADD of net1 in underlay mode. */
function movesOf(
  routes: readonly Route[],
  { defaultRouteNic, of = "default" }: {
    readonly defaultRouteNic?: string;
    readonly of?: string;
  } = {},
): string[] {
  const rest = { mtu: 1500, up: true, lowerUp: true, group: 0, flags: 0 };
  const links = NICS.map((name, index) => ({ name, index, ...rest }));
  const pod = {
    links,
    addresses: links.map(({ index }) =>
      addressEntry(index, `10.${index}.0.100/24`)
    ),
    routes,
    rules: [],
    neighbours: [],
  };
  const { steps } = planMoves({
    nic: "net1",
    mode: "underlay",
    families: ["ipv4"],
    pod,
    settings: { firstNic: "eth0", tunePodRoutes: true, defaultRouteNic },
  });
  return renderPlan({ steps }, { netns: "P" }).split("\n").filter((line) =>
    line.includes(of)
  ).map((line) => line.replace("ip -n P route ", ""));
}

/** As an ADD leaves it that has given the main table to net1. */
const KEPT_BY_NET1 = [defaultOf("net1"), defaultOf("eth0", 200)];
const EXCHANGED = [
  "replace default via 10.1.0.1 dev net1 table 101 proto 32",
  "delete default via 10.1.0.1 dev net1 proto 3",
  "replace default via 10.0.0.1 dev eth0 proto 3",
];

Deno.test("planMoves() leaves the main table to the interface that alone has a default route there, when none is named again", () => {
  assert.deepEqual(movesOf(KEPT_BY_NET1), [
    "replace default via 10.0.0.1 dev eth0 table 200 proto 32",
  ]);
});

Deno.test("planMoves() leaves all where no other interface has a default route of the family, in the main table or in its own", () => {
  const of = "";
  const eth0 = defaultOf("eth0");
  const movedWith = (route: Route) =>
    movesOf([defaultOf("net1"), route], { of }).some((line) => line !== "");
  assert.ok(movedWith(eth0));
  assert.ok(movedWith(defaultOf("eth0", 200)));
  assert.ok(!movedWith({ ...eth0, destination: Prefix.parse("10.5.0.0/16") }));
  assert.ok(!movedWith({ ...eth0, family: "ipv6" }));
  assert.ok(!movedWith({ ...defaultOf("eth0", 200), protocol: 3 }));
});

Deno.test("planMoves() keeps of an interface's table its own default route alone, where the main table has none", () => {
  const network = Prefix.parse("10.5.0.0/16");
  const kept = movesOf(KEPT_BY_NET1);
  const withKept = (route: Route) => movesOf([...KEPT_BY_NET1, route], all);
  const all = { of: "eth0 table 200" };
  assert.deepEqual(movesOf(KEPT_BY_NET1, all), kept);
  // A network that the interface no longer has.
  const former = { ...defaultOf("eth0", 200), destination: network };
  assert.deepEqual(withKept(former), kept);
  // Another network of the main table.
  const other = { ...defaultOf("eth0"), destination: network };
  assert.deepEqual(withKept(other), [
    "replace 10.5.0.0/16 via 10.0.0.1 dev eth0 table 200 proto 32",
    ...kept,
  ]);
  // In another table, of the coordinator, or not of a kind that is moved.
  const { gateway: _, ...direct } = other;
  for (
    const left of [
      { ...other, table: 300 },
      { ...other, table: 107, protocol: COORDINATOR_PROTOCOL },
      { ...other, protocol: COORDINATOR_PROTOCOL },
      { ...direct, type: "local" },
      { ...direct, destination: Prefix.parse("fe80::/64") },
    ] as const
  ) assert.deepEqual(withKept(left), kept);
  // Of another program, or in another table.
  const foreign = { ...defaultOf("eth0", 200), protocol: 3 };
  assert.deepEqual(movesOf([defaultOf("net1"), foreign]), []);
  assert.deepEqual(movesOf([defaultOf("net1"), defaultOf("eth0", 107)]), []);
});

Deno.test("planMoves() gives the interface that is named now its default route in the main table back", () => {
  const eth0 = "replace default via 10.0.0.1 dev eth0 table 200 proto 32";
  assert.deepEqual(movesOf(KEPT_BY_NET1, { defaultRouteNic: "eth0" }), [
    eth0,
    ...EXCHANGED,
  ]);
  const kept = [defaultOf("eth0"), defaultOf("net1", 101)];
  assert.deepEqual(movesOf(kept, { defaultRouteNic: "net1" }), [
    eth0,
    "delete default via 10.0.0.1 dev eth0 proto 3",
    "replace default via 10.1.0.1 dev net1 proto 3",
  ]);
});

Deno.test("planMoves() does not replace the default route of an interface whose ADD is still to come", () => {
  const routes = [defaultOf("net2"), ...KEPT_BY_NET1];
  assert.deepEqual(
    movesOf(routes, { defaultRouteNic: "eth0" }).filter((line) =>
      /replace.*eth0 proto/.test(line)
    ),
    [],
  );
});
