import assert from "node:assert/strict";
import { Address, Prefix } from "../../inet/mod.ts";
import type { Link, Neighbour, Route, Rule } from "../../netlink/mod.ts";
import { renderStep } from "../state/step_text.ts";
import { type JoinedHost, planHost } from "./plan_host.ts";

const END = 7;

function link(alias: string): Link {
  return {
    index: END,
    name: "vethx",
    kind: "veth",
    mtu: 1500,
    flags: 1,
    up: true,
    alias,
  } as Link; // all that is looked at
}

function rule(priority: number, table: number, protocol = 32): Rule {
  return { family: "ipv4", priority, table, protocol };
}

function route(address: string, source?: string, table = 500): Route {
  return {
    family: "ipv4",
    destination: Prefix.host(Address.parse(address)),
    index: END,
    table,
    protocol: 32,
    scope: "link",
    type: "unicast",
    source: source === undefined ? undefined : Address.parse(source),
  };
}

function neighbour(address: string): Neighbour {
  return {
    index: END,
    address: Address.parse(address),
    mac: "02:00:00:00:00:01",
    state: "permanent",
    protocol: 32,
  };
}

const POD = "10.6.0.100";
const COMPLETE: JoinedHost = {
  links: [link("COIL-COORD:cid:eth0")],
  rules: [rule(1000, 500)],
  routes: [route(POD, "10.6.0.10")],
  neighbours: [neighbour(POD)],
  hostAddresses: [Address.parse("10.6.0.10")],
};

function planned(changes: Partial<JoinedHost>, source?: string): string[] {
  return planHost(
    { ...COMPLETE, ...changes },
    () => source === undefined ? undefined : Address.parse(source),
  ).map((step) => renderStep(step, { netns: "POD" }));
}

const ROUTE = (table: number, source: string) =>
  `ip route replace ${POD}/32 dev vethx table ${table} proto 32 scope link src ${source}`;
const RULE = (table: number) =>
  `ip rule add pref 1000 lookup ${table} proto 32`;

const CASES: readonly (readonly [
  string,
  Partial<JoinedHost>,
  string | undefined,
  readonly string[],
])[] = [
  ["what is complete", {}, undefined, []],
  ["a lost route", { routes: [] }, "10.6.0.10", [ROUTE(500, "10.6.0.10")]],
  [
    "a route from an address that the host has lost",
    { hostAddresses: [Address.parse("10.6.0.11")] },
    "10.6.0.10",
    [ROUTE(500, "10.6.0.11")],
  ],
  [
    "a route by a link that is no pod's",
    { routes: [{ ...route(POD, "10.6.0.10"), index: 99 }] },
    "10.6.0.10",
    [ROUTE(500, "10.6.0.10")],
  ],
  [
    "a host with two addresses",
    { hostAddresses: ["10.6.0.11", "10.6.0.10"].map((a) => Address.parse(a)) },
    undefined,
    [],
  ],
  [
    "a lost route of a host with two addresses",
    {
      hostAddresses: ["10.6.0.11", "10.6.0.10"].map((a) => Address.parse(a)),
      routes: [],
    },
    "10.6.0.10",
    [ROUTE(500, "10.6.0.10")],
  ],
  ["a host without an address", { hostAddresses: [] }, undefined, []],
  ["a lost rule", { rules: [] }, undefined, [RULE(500)]],
  [
    "another program's rule",
    { rules: [rule(1000, 500, 4)] },
    undefined,
    [RULE(500)],
  ],
  [
    "another table",
    { rules: [rule(1000, 501)], routes: [] },
    "10.6.0.10",
    [ROUTE(501, "10.6.0.10")],
  ],
  [
    "nothing but neighbours",
    { rules: [], routes: [] },
    "10.6.0.10",
    [ROUTE(500, "10.6.0.10"), RULE(500)],
  ],
  [
    "a pod that is cut off",
    { links: [link("COIL-COORD-HUSK:cid:eth0")], routes: [] },
    "10.6.0.10",
    ["ip rule delete pref 1000 lookup 500 proto 32"],
  ],
  [
    "an address that another pod has been given since",
    {
      links: [
        ...COMPLETE.links,
        { ...link("COIL-COORD:former:eth0"), index: 6, name: "vethy" },
      ],
      neighbours: [{ ...neighbour(POD), index: 6 }, neighbour(POD)],
    },
    undefined,
    [],
  ],
  [
    "a pod that has nothing but its pair, as during ADD",
    { routes: [], neighbours: [] },
    undefined,
    [],
  ],
  [
    "no pod",
    {
      links: [],
      routes: [],
      neighbours: [],
      rules: [rule(1000, 500), rule(1000, 501, 4), rule(999, 7)],
    },
    undefined,
    ["ip rule delete pref 1000 lookup 500 proto 32"],
  ],
];

for (const [what, changes, source, expected] of CASES) {
  Deno.test(`planHost() handles ${what}`, () => {
    assert.deepEqual(planned(changes, source), expected);
  });
}

Deno.test("planHost() looks at each route once, however many addresses pods have", () => {
  const addresses = Array.from({ length: 200 }, (_, i) => `10.6.1.${i}`);
  let looks = 0;
  const routes = addresses.map((address) => {
    const one = route(address, "10.6.0.10");
    const text = String(one.destination);
    const destination = Object.assign(Prefix.parse(text), {
      equals: () => (looks++, false),
      toString: () => (looks++, text),
    });
    return { ...one, destination };
  });
  assert.deepEqual(
    planned({ routes, neighbours: addresses.map(neighbour) }),
    [],
  );
  assert.equal(looks, addresses.length);
});
