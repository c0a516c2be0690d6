import assert from "node:assert/strict";
import { Address, Prefix } from "../../inet/mod.ts";
import type { Link, Neighbour, Route, Rule } from "../../netlink/mod.ts";
import { addressEntry } from "../../netlink/testing.ts";
import { hasSameRule, holds } from "./compare.ts";
import { type SideState, type State, stateOf } from "./state.ts";
import type { DeviceRoute, LinkSetting, Step } from "./steps.ts";

Deno.test("holds() writes each route of a side once, however many routes are compared with it", () => {
  const COUNT = 300;
  let written = 0;
  const routes = Array.from({ length: COUNT }, (_, i): Route => {
    const destination = Prefix.host(Address.parse(`10.0.${i >> 8}.${i & 255}`));
    const text = destination.toString();
    destination.toString = () => {
      written++;
      return text;
    };
    return {
      family: "ipv4",
      destination,
      index: 7,
      table: 101,
      protocol: 32,
      scope: "link",
      type: "unicast",
    };
  });
  const link = { index: 7, name: "veth0" } as Link; // all that is looked at
  const side: SideState = {
    links: [link],
    addresses: [],
    rules: [],
    routes,
    neighbours: [],
  };
  const state = stateOf(side);
  const step = ({ index: _index, ...route }: Route, table: number): Step => ({
    kind: "route",
    place: "pod",
    route: { ...route, table, device: "veth0" },
  });
  assert.ok(routes.every((route) => holds(step(route, 101), state)));
  assert.ok(!routes.some((route) => holds(step(route, 102), state)));
  assert.ok(written < 10 * COUNT, `${written} times`);
});

const MAC = "02:00:00:00:00:01";
const OTHER_MAC = "02:00:00:00:00:02";
const HOST = Address.parse("10.6.0.10");
const RULE: Rule = {
  family: "ipv4",
  priority: 1000,
  table: 500,
  protocol: 32,
  source: Prefix.parse("10.6.0.0/24"),
  destination: Prefix.parse("10.7.0.0/24"),
  fwmark: 1,
  fwmask: 3,
  iif: "eth0",
};
const ROUTE: DeviceRoute = {
  device: "veth0",
  family: "ipv4",
  destination: Prefix.host(HOST),
  gateway: Address.parse("10.6.0.1"),
  table: 101,
  protocol: 32,
  scope: "link",
  type: "unicast",
  source: Address.parse("10.6.0.100"),
};
const { device: _device, ...WAY } = ROUTE;
const NEIGHBOUR: Neighbour = {
  index: 7,
  address: HOST,
  mac: MAC,
  state: "permanent",
  protocol: 32,
};
const SIDE: SideState = {
  links: [
    { index: 7, name: "veth0", mac: MAC, up: true, txQueueLength: 5 },
    { index: 8, name: "eth0", mac: MAC, up: true, txQueueLength: 5 },
  ] as Link[], // all that is looked at
  addresses: [],
  rules: [RULE],
  routes: [{ ...WAY, index: 7 }],
  neighbours: [NEIGHBOUR],
};

/** Whether the pod has what the step makes; its opposite must say the contrary. */
function has(step: Step, changes: Partial<SideState> = {}): boolean {
  const state = stateOf({ ...SIDE, ...changes });
  const found = holds(step, state);
  if (step.kind === "rule") {
    assert.equal(holds({ ...step, kind: "noRule" }, state), !found);
  }
  if (step.kind === "route") {
    assert.equal(holds({ ...step, kind: "noRoute" }, state), !found);
  }
  return found;
}

Deno.test("holds() compares all of a rule", () => {
  const step = { kind: "rule", place: "pod", rule: RULE } as const;
  assert.ok(has(step));
  assert.ok(has(step, { rules: [{ ...RULE, table: 1 }, RULE] }));
  const others: Partial<Rule>[] = [
    { family: "ipv6" },
    { priority: 999 },
    { table: 501 },
    { protocol: 3 },
    { source: undefined },
    { destination: Prefix.parse("10.8.0.0/24") },
    { fwmark: 2 },
    { fwmask: undefined },
    { iif: "eth1" },
    // By something that is not read.
    { hasMore: true },
  ];
  for (const other of others) {
    const rules = [{ ...RULE, ...other }];
    assert.ok(!has(step, { rules }), JSON.stringify(other));
  }
});

Deno.test("holds() compares all of a route, and each of its ways", () => {
  const step = { kind: "route", place: "pod", route: ROUTE } as const;
  assert.ok(has(step));
  // Routes were put beside each other.
  assert.ok(
    has(step, { routes: [{ ...WAY, index: 8 }, { ...WAY, index: 7 }] }),
  );
  const others: Partial<Route>[] = [
    { table: 102 },
    { destination: undefined },
    { metric: 7 },
    { protocol: 3 },
    { scope: "global" },
    { type: "blackhole" },
    { source: undefined },
    { source: HOST },
    { gateway: undefined },
    { index: 8 },
  ];
  for (const other of others) {
    const routes = [{ ...WAY, index: 7, ...other }];
    assert.ok(!has(step, { routes }), JSON.stringify(other));
  }
  const { gateway, ...rest } = WAY;
  const multipath = (ways: Partial<Route>[]) => ({
    routes: [{ ...rest, hops: ways } as Route],
  });
  assert.ok(has(step, multipath([{ index: 8 }, { index: 7, gateway }])));
  assert.ok(!has(step, multipath([{ index: 8, gateway }, { index: 7 }])));
  assert.ok(!has({ ...step, route: { ...ROUTE, device: "net1" } }));
});

Deno.test("holds() takes no neighbour for made that may expire or has another MAC address", () => {
  const neighbour = { device: "veth0", address: HOST, mac: MAC };
  const step = { kind: "neighbour", place: "pod", neighbour } as const;
  const gone = { ...step, kind: "noNeighbour" } as const;
  assert.ok(has(step));
  const others: Partial<Neighbour>[] = [
    { state: "reachable" },
    { mac: OTHER_MAC },
  ];
  for (const other of others) {
    const neighbours = [{ ...NEIGHBOUR, ...other }];
    assert.ok(!has(step, { neighbours }));
    assert.ok(!has(gone, { neighbours }));
  }
  const elsewhere: Partial<Neighbour>[] = [
    { index: 8 },
    { address: Address.parse("10.6.0.11") },
  ];
  for (const other of elsewhere) {
    const neighbours = [{ ...NEIGHBOUR, ...other }];
    assert.ok(!has(step, { neighbours }));
    assert.ok(has(gone, { neighbours }));
  }
});

Deno.test("holds() compares of a link what is to be set, and addresses of just the link", () => {
  const hasSetting = (setting: LinkSetting, device = "veth0") =>
    has({ kind: "link", device, setting });
  assert.ok(hasSetting({ up: true, mac: MAC, txQueueLength: 5 }));
  assert.ok(hasSetting({}));
  assert.ok(!hasSetting({ mac: OTHER_MAC }));
  assert.ok(!hasSetting({ txQueueLength: 6 }));
  assert.ok(!hasSetting({}, "net1"));
  const [link] = SIDE.links;
  assert.ok(link);
  const down = { links: [{ ...link, up: false }] };
  const device = "veth0";
  assert.ok(!has({ kind: "link", device, setting: { up: true } }, down));
  assert.ok(has({ kind: "link", device, setting: { mac: MAC } }, down));

  const entry = (index: number, address: string) => ({
    addresses: [addressEntry(index, `${address}/24`)],
  });
  const step = { kind: "address", device, address: HOST } as const;
  assert.ok(has(step, entry(7, "10.6.0.10")));
  const more = [entry(8, "10.6.0.10"), entry(7, "10.6.0.10")];
  const addresses = more.flatMap((each) => each.addresses);
  assert.ok(has(step, { addresses }));
  assert.ok(!has(step, entry(8, "10.6.0.10")));
  assert.ok(!has(step, entry(7, "10.6.0.11")));
});

Deno.test("holds() leaves sysctls alone that the kernel does not have", () => {
  const step = { kind: "sysctl", place: "pod", name: "a", value: "2" } as const;
  const state = (key: string, value: string): State => ({
    ...stateOf(SIDE),
    sysctls: new Map([[key, value]]),
  });
  assert.ok(holds(step, stateOf(SIDE)));
  assert.ok(holds(step, state("pod a", "2")));
  assert.ok(!holds(step, state("pod a", "1")));
  assert.ok(holds(step, state("host a", "1")));
  assert.ok(!holds({ kind: "replies" }, stateOf(SIDE)));
  assert.ok(
    holds({ kind: "replies" }, { ...stateOf(SIDE), repliesMarked: true }),
  );
});

Deno.test("holds() and hasSameRule() look at each rule once, however often they are asked", () => {
  let looks = 0;
  const rules = Array.from({ length: 200 }, (_, i): Rule => ({
    get family() {
      looks++;
      return "ipv4" as const;
    },
    priority: 1101,
    table: 101,
    protocol: 32,
    source: Prefix.parse(`198.18.0.${i}/32`),
  }));
  const side = { links: [], addresses: [], rules, routes: [], neighbours: [] };
  for (const rule of rules) {
    assert.ok(holds({ kind: "rule", place: "pod", rule }, stateOf(side)));
    assert.ok(hasSameRule(rules, rule));
  }
  // Once for the list, and once for each question.
  assert.equal(looks, 3 * rules.length);
  const [rule] = rules;
  assert.ok(
    rule !== undefined && !hasSameRule(rules, { ...rule, hasMore: true }),
  );
});
