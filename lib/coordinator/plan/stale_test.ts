import assert from "node:assert/strict";
import { Address, Prefix } from "../../inet/mod.ts";
import type { Neighbour, Route, Rule } from "../../netlink/mod.ts";
import { addressEntry } from "../../netlink/testing.ts";
import { renderStep } from "../state/step_text.ts";
import type { Step } from "../state/steps.ts";
import { linkOf, type NetworkState } from "../testing.ts";
import type { PlanInput } from "./plan.ts";
import { staleSteps } from "./stale.ts";

const [ETH0, NET1, END] = [2, 4, 7];
const TABLE = 101;

function route(text: string, changes: Partial<Route> = {}): Route {
  return {
    family: "ipv4",
    destination: Prefix.parse(text),
    index: NET1,
    table: TABLE,
    protocol: 32,
    scope: "link",
    type: "unicast",
    ...changes,
  };
}

function rule(source: string, changes: Partial<Rule> = {}): Rule {
  return {
    family: "ipv4",
    priority: 1000 + TABLE,
    table: TABLE,
    protocol: 32,
    source: Prefix.parse(source),
    ...changes,
  };
}

function neighbour(text: string, changes: Partial<Neighbour> = {}): Neighbour {
  return {
    index: END,
    address: Address.parse(text),
    mac: "02:00:00:00:00:01",
    state: "permanent",
    ...changes,
  };
}

const onHost = (address: string, changes: Partial<Route> = {}) =>
  route(`${address}/32`, { index: END, table: 500, ...changes });

/** What is stale of net1, where these steps are planned. */
function stale(
  { pod = {}, host = {}, steps = [] }: {
    readonly pod?: Partial<NetworkState>;
    readonly host?: Partial<NetworkState>;
    readonly steps?: readonly Step[];
  },
): string[] {
  const none = { addresses: [], rules: [], routes: [], neighbours: [] };
  const found = staleSteps(steps, {
    pod: {
      ...none,
      links: [linkOf(ETH0, { name: "eth0" }), linkOf(NET1, { name: "net1" })],
      addresses: [
        addressEntry(ETH0, "10.6.0.100/24"),
        addressEntry(NET1, "10.7.0.100/24"),
      ],
      ...pod,
    },
    host: { ...none, links: [linkOf(END, { name: "vethx" })], ...host },
    input: {
      nic: "net1",
      moves: { table: { table: TABLE, priority: 1000 + TABLE } },
      outer: { device: "vethx", mac: "02:00:00:00:00:01" },
    } as Partial<PlanInput> as PlanInput, // all that is looked at
  });
  return found.map((step) => renderStep(step, { netns: "POD" }));
}

Deno.test("staleSteps() removes rules of the table from sources that no interface has, but those that are planned", () => {
  const planned: Step = {
    kind: "rule",
    place: "pod",
    rule: rule("10.7.0.7/32"),
  };
  const rules = [
    rule("10.7.0.9/32"),
    rule("10.7.0.7/32"),
    rule("10.6.0.100/32"),
    rule("10.7.0.9/32", { protocol: 3 }),
    rule("10.7.0.9/32", { table: 102, priority: 1102 }),
  ];
  assert.deepEqual(stale({ pod: { rules }, steps: [planned] }), [
    "ip -n POD rule delete pref 1101 from 10.7.0.9/32 lookup 101 proto 32",
  ]);
});

const { index: _index, ...WANTED } = route("10.7.0.0/24");

/** The route to the interface's network. */
const PLANNED: Step = {
  kind: "route",
  place: "pod",
  route: { ...WANTED, device: "net1" },
};

Deno.test("staleSteps() removes routes of the interface's own table that are not planned", () => {
  const routes = [
    route("10.7.0.0/24"),
    route("10.9.0.0/24"),
    route("10.9.0.0/24", { protocol: 3 }),
    route("10.9.0.0/24", { table: 102 }),
    // Its link is gone.
    route("10.9.0.0/24", { index: 99 }),
  ];
  assert.deepEqual(stale({ pod: { routes }, steps: [PLANNED] }), [
    "ip -n POD route delete 10.9.0.0/24 dev net1 table 101 proto 32 scope link",
  ]);
});

Deno.test("staleSteps() leaves the route that the planned one takes the place of, and removes those beside it", () => {
  const routes = [
    route("10.7.0.0/24", { index: ETH0 }),
    route("10.7.0.0/24", { index: ETH0, scope: "global" }),
    route("10.7.0.0/24"),
  ];
  assert.deepEqual(stale({ pod: { routes }, steps: [PLANNED] }), [
    "ip -n POD route delete 10.7.0.0/24 dev eth0 table 101 proto 32",
  ]);
});

Deno.test("staleSteps() removes from the host what leads to addresses that the pod does not have, with what is known of just these", () => {
  const host = {
    routes: [
      onHost("10.6.0.100"),
      onHost("10.7.0.9"),
      onHost("10.7.0.8"),
      onHost("10.7.0.7", { protocol: 3 }),
      onHost("10.7.0.6", { index: 8 }),
    ],
    neighbours: [
      neighbour("10.6.0.100"),
      neighbour("10.7.0.9"),
      neighbour("10.7.0.8", { state: "stale" }),
    ],
  };
  assert.deepEqual(stale({ host }), [
    "ip route delete 10.7.0.9/32 dev vethx table 500 proto 32 scope link",
    "ip neighbour delete 10.7.0.9 lladdr 02:00:00:00:00:01 dev vethx nud permanent",
    "ip route delete 10.7.0.8/32 dev vethx table 500 proto 32 scope link",
  ]);
});
