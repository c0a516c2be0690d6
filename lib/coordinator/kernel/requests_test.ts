import assert from "node:assert/strict";
import { Address, Prefix } from "../../inet/mod.ts";
import {
  addressAdd,
  addressDelete,
  type Link,
  linkSet,
  neighbourDelete,
  neighbourReplace,
  type Request,
  type Route,
  routeAddBeside,
  routeDelete,
  routeReplace,
  type Rule,
  ruleAdd,
  ruleDelete,
} from "../../netlink/mod.ts";
import { bytesOf } from "../../netlink/testing.ts";
import { direct } from "../plan/plan.ts";
import type { State } from "../state/state.ts";
import type { NetlinkStep } from "../state/steps.ts";
import { addRequest, doRequest, undoRequests } from "./requests.ts";

const DESTINATION = Prefix.host(Address.parse("10.6.0.100"));
const LINK: Link = {
  index: 7,
  name: "veth7",
  mtu: 1500,
  up: true,
  lowerUp: true,
  group: 0,
  flags: 1,
};
const STEP: NetlinkStep = {
  kind: "route",
  place: "host",
  route: direct(DESTINATION, { device: "veth7", table: 500 }),
};

function stateWith(routes: readonly Route[]): State {
  const none = { addresses: [], rules: [], neighbours: [] };
  const host = { ...none, links: [LINK], routes };
  return { pod: host, host, sysctls: new Map(), repliesMarked: false };
}

Deno.test("addRequest() takes the place of routes that were read, and of no others", () => {
  const { device: _device, ...route } = direct(DESTINATION, {
    device: "veth7",
    table: 500,
  });
  const elsewhere = { ...route, table: 501, index: 8 };
  const inPlace = { ...route, index: 8 };
  for (
    const [routes, verb] of [
      [[], "add"],
      [[elsewhere], "add"],
      [[inPlace], "replace"],
    ] as const
  ) {
    const text = addRequest(STEP, stateWith(routes)).describe();
    assert.equal(text, `${verb} route "10.6.0.100/32" to table 500`);
  }
  const text = doRequest(STEP, stateWith([])).describe();
  assert.match(text, /^replace route/);
});

/** As they go to the kernel. */
function sent(requests: readonly Request[]): string[] {
  return requests.map((request) =>
    `${request.type} ${request.flags} ${bytesOf(request)}`
  );
}

Deno.test("doRequest() asks for just what a step says", () => {
  const state = stateWith([]);
  const rule: Rule = { family: "ipv4", priority: 1000, table: 500 };
  const { device: _device, ...route } = STEP.route;
  const { address } = DESTINATION;
  const place = "pod";
  const device = "veth7";
  const mac = "02:00:00:00:00:01";
  const neighbour = { device, address, mac };
  const known = { index: 7, address, mac, protocol: 32 };
  const setting = { up: true, txQueueLength: 5 } as const;
  const target = { ...route, index: 7 };
  const cases: readonly (readonly [NetlinkStep, Request])[] = [
    [{ kind: "rule", place, rule }, ruleAdd(rule, { duplicate: true })],
    [{ kind: "noRule", place, rule }, ruleDelete(rule)],
    [STEP, routeReplace({ ...target, type: "unicast" })],
    [
      { ...STEP, kind: "noRoute" },
      routeDelete({ ...target, type: "unicast" }),
    ],
    [{ kind: "neighbour", place, neighbour }, neighbourReplace(known)],
    [{ kind: "noNeighbour", place, neighbour }, neighbourDelete(known)],
    [
      { kind: "address", device, address },
      addressAdd({ index: 7, prefix: { address, length: 32 }, replace: true }),
    ],
    [{ kind: "link", device, setting }, linkSet({ name: device }, setting)],
  ];
  for (const [step, expected] of cases) {
    const request = doRequest(step, state);
    assert.deepEqual(sent([request]), sent([expected]), step.kind);
  }
  const lost = { ...STEP, route: { ...STEP.route, device: "gone" } };
  assert.throws(() => doRequest(lost, state), /^TypeError: .*"gone"/);
});

/** Fails unless undoing the step, where the kernel had this, sends these. */
function assertUndone(
  step: NetlinkStep,
  before: Partial<State["pod"]>,
  expected: readonly Request[],
): void {
  const side = { ...stateWith([]).pod, ...before };
  const state = { ...stateWith([]), pod: side, host: side };
  assert.deepEqual(sent(undoRequests(step, state)), sent(expected));
}

const { device: _named, ...MADE } = STEP.route;
const MAC = "02:00:00:00:00:01";

Deno.test("undoRequests() puts back the route that was in place, and removes one that was not", () => {
  assertUndone(STEP, {}, [routeDelete({ ...MADE, index: 7, type: "unicast" })]);
  const before: Route = { ...MADE, index: 8, protocol: 3 };
  assertUndone(STEP, { routes: [before] }, [
    routeReplace({ ...MADE, index: 8, protocol: 3, type: "unicast" }),
  ]);
  const gateway = Address.parse("10.6.0.1");
  const hops = [{ index: 9, gateway }, { index: 8 }];
  assertUndone(STEP, { routes: [{ ...MADE, hops }] }, [
    routeReplace({ ...MADE, index: 9, gateway, type: "unicast" }),
  ]);
});

Deno.test("undoRequests() puts a removed route back where it was among those to the same destination", () => {
  const step: NetlinkStep = { ...STEP, kind: "noRoute" };
  const own: Route = { ...MADE, index: 7 };
  const other: Route = { ...MADE, index: 8 };
  const beside = (place: "first" | "last") => [
    routeAddBeside({ ...MADE, index: 7, type: "unicast" }, { place }),
  ];
  assertUndone(step, { routes: [own, other] }, beside("first"));
  assertUndone(step, { routes: [other, own] }, beside("last"));
});

Deno.test("undoRequests() puts rules, neighbours and settings of links back", () => {
  const rule: Rule = { family: "ipv4", priority: 1000, table: 500 };
  const place = "pod";
  assertUndone({ kind: "rule", place, rule }, {}, [ruleDelete(rule)]);
  assertUndone({ kind: "noRule", place, rule }, {}, [ruleAdd(rule)]);

  const { address } = DESTINATION;
  const neighbour = { device: "veth7", address, mac: MAC };
  const known = {
    index: 7,
    address,
    mac: "02:00:00:00:00:02",
    protocol: 3,
    state: "reachable",
  } as const;
  for (const kind of ["neighbour", "noNeighbour"] as const) {
    const step = { kind, place, neighbour } as const;
    const gone = [neighbourDelete({ index: 7, address })];
    assertUndone(step, {}, gone);
    assertUndone(step, { neighbours: [{ ...known, mac: undefined }] }, gone);
    assertUndone(step, { neighbours: [known] }, [neighbourReplace(known)]);
    const { state: _state, ...rest } = known;
    const odd = { ...known, state: 64 };
    assertUndone(step, { neighbours: [odd] }, [neighbourReplace(rest)]);
  }

  const links = [{ ...LINK, up: false, mac: MAC, txQueueLength: 7 }];
  const device = "veth7";
  const before = (setting: Parameters<typeof linkSet>[1]) => [
    linkSet({ name: device }, setting),
  ];
  const cases = [
    [{ up: true }, { up: false }],
    [{ mac: "02:00:00:00:00:02" }, { mac: MAC }],
    [{ txQueueLength: 1 }, { txQueueLength: 7 }],
  ] as const;
  for (const [setting, expected] of cases) {
    assertUndone(
      { kind: "link", device, setting },
      { links },
      before(expected),
    );
  }
});

Deno.test("undoRequests() puts back what goes with an address: routes without a gateway first, and neighbours", () => {
  const address = Address.parse("10.6.0.20");
  const gateway = Address.parse("10.6.0.1");
  const direct: Route = { ...MADE, index: 7 };
  const through: Route = { ...MADE, index: 7, gateway };
  const ipv6: Route = {
    ...MADE,
    family: "ipv6",
    destination: Prefix.parse("fd00::/64"),
    index: 7,
  };
  const known = {
    index: 7,
    address: gateway,
    mac: MAC,
    protocol: 32,
    state: "permanent",
  } as const;
  const step: NetlinkStep = { kind: "address", device: "veth7", address };
  assertUndone(step, {
    routes: [
      through,
      direct,
      { ...direct, index: 8 },
      { ...direct, protocol: 3 },
      ipv6,
    ],
    neighbours: [
      known,
      { ...known, index: 8 },
      { ...known, protocol: 3 },
      { ...known, address: Address.parse("fd00::1") },
    ],
  }, [
    addressDelete({ index: 7, prefix: { address, length: 32 } }),
    routeReplace({ ...MADE, index: 7, type: "unicast" }),
    routeReplace({ ...MADE, index: 7, gateway, type: "unicast" }),
    neighbourReplace(known),
  ]);
});
