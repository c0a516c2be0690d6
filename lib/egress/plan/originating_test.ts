import assert from "node:assert/strict";
import { Address } from "../../inet/mod.ts";
import type { Link, Route } from "../../netlink/mod.ts";
import { addressEntry } from "../../netlink/testing.ts";
import { planClient } from "./plan.ts";
import {
  findInterfaces,
  originatingRoutes,
  originatingRules,
} from "./originating.ts";
import { gatewayFor, requestFor } from "../testing.ts";

const IFF_LOOPBACK = 8;
const DUAL = gatewayFor("a/a", ["0.0.0.0/0", "::/0"]);

function planOf(destinations: readonly string[], originatingOnly = true) {
  return planClient(
    requestFor([{ ...DUAL, ...gatewayFor("a/a", destinations) }], {
      originatingOnly,
    }),
  );
}

function link(index: number, name: string, flags = 0): Link {
  return { index, name, mtu: 1500, up: true, lowerUp: true, group: 0, flags };
}

function route(
  index: number,
  family: "ipv4" | "ipv6",
  changes: Partial<Route> = {},
): Route {
  return {
    family,
    destination: undefined,
    index,
    table: 254,
    protocol: 3,
    scope: "global",
    type: "unicast",
    ...changes,
  };
}

const FACTS = {
  links: [
    link(1, "lo", IFF_LOOPBACK),
    link(3, "eth0"),
    link(4, "net1"),
    link(5, "idle"),
    link(6, "fou4_0a440c31"),
  ],
  addresses: [
    addressEntry(1, "10.9.9.9/32"),
    addressEntry(3, "10.1.2.3/32"),
    addressEntry(3, "fd02::1/128"),
    addressEntry(4, "192.168.7.7/32"),
    addressEntry(4, "fe80::4/128", { scope: "link" }),
    addressEntry(5, "192.168.8.8/32"),
    addressEntry(6, "10.0.0.6/32"),
  ],
  routes: [
    route(1, "ipv4"),
    route(3, "ipv4", { gateway: Address.parse("169.254.1.1") }),
    route(3, "ipv4", { scope: "link" }),
    route(3, "ipv6"),
    route(3, "ipv4", { table: 255 }),
    route(4, "ipv4"),
    route(4, "ipv6"),
    route(6, "ipv4"),
  ],
};

Deno.test("findInterfaces() takes links with a global address and routes, by family", () => {
  const interfaces = findInterfaces(planOf(["0.0.0.0/0", "::/0"]), FACTS);
  assert.deepEqual(
    interfaces.map(({ name, routes }) => [name, ...Object.keys(routes)]),
    [["eth0", "ipv4", "ipv6"], ["net1", "ipv4"]],
  );
  assert.deepEqual(
    interfaces.map(({ addresses }) => addresses.join()),
    ["10.1.2.3,fd02::1", "192.168.7.7"],
  );
});

Deno.test("findInterfaces() leaves out families in which the pod is no client, and all when it is off", () => {
  const interfaces = findInterfaces(planOf(["::/0"]), FACTS);
  assert.deepEqual(
    interfaces.map(({ name, routes }) => [name, ...Object.keys(routes)]),
    [["eth0", "ipv6"]],
  );
  assert.deepEqual(findInterfaces(planOf(["::/0"], false), FACTS), []);
});

Deno.test("originatingRoutes() copies routes into the interface's table, those without a gateway first", () => {
  const [eth0] = findInterfaces(planOf(["0.0.0.0/0"]), FACTS);
  assert.ok(eth0 !== undefined);
  assert.deepEqual(
    originatingRoutes([eth0]).map(({ table, protocol, scope, gateway }) => [
      table,
      protocol,
      scope,
      gateway?.toString(),
    ]),
    [[1003, 30, "link", undefined], [1003, 30, "global", "169.254.1.1"]],
  );
});

Deno.test("originatingRules() leads marks to tables", () => {
  const interfaces = findInterfaces(planOf(["0.0.0.0/0", "::/0"]), FACTS);
  assert.deepEqual(
    originatingRules(interfaces).map(({ family, fwmark, table, priority }) =>
      `${priority} ${family} ${fwmark} ${table}`
    ),
    ["1000 ipv4 3 1003", "1000 ipv4 4 1004", "1000 ipv6 3 1003"],
  );
});
