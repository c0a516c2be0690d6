import assert from "node:assert/strict";
import { Prefix } from "../../inet/mod.ts";
import type { Link, Route } from "../../netlink/mod.ts";
import { surveyOf } from "./survey.ts";

const OPTIONS = { tableId: 116, protocolId: 30, registerFromMain: false };

function link(index: number, alias?: string): Link {
  return {
    index,
    name: `veth${index}`,
    mtu: 1500,
    kind: "veth",
    up: true,
    lowerUp: true,
    group: 0,
    flags: 1,
    peerIndex: 2,
    ...(alias === undefined ? {} : { alias }),
  };
}

function route(text: string, index: number, more: Partial<Route> = {}): Route {
  const destination = Prefix.parse(text);
  return {
    family: destination.family,
    destination,
    index,
    table: 116,
    protocol: 30,
    scope: "link",
    type: "unicast",
    ...more,
  };
}

function addressesByContainer(
  links: readonly Link[],
  routes: readonly Route[],
  registerFromMain: boolean = false,
): Record<string, unknown> {
  const { pods } = surveyOf(links, routes, { ...OPTIONS, registerFromMain });
  return Object.fromEntries(
    pods.map((pod) => [pod.containerId, JSON.stringify(pod.addresses)]),
  );
}

Deno.test("surveyOf() tells pods, husks, malformed and foreign links apart", () => {
  const survey = surveyOf(
    [
      link(5, "COIL:default:a:eth0"),
      link(6, "COIL-HUSK:default:b:eth0"),
      link(7, "COIL:default"),
      link(8, "uplink"),
      link(9),
      link(10, "COIL::uid:eth0"),
    ],
    [],
    OPTIONS,
  );
  assert.deepEqual(
    survey.pods.map((pod) => [pod.index, pod.pool, pod.containerId]),
    [[5, "default", "a"], [10, "", "uid"]],
  );
  assert.deepEqual(survey.husks, [
    { pool: "default", containerId: "b", ifname: "eth0", index: 6 },
  ]);
  assert.deepEqual(survey.malformed, [
    { index: 7, name: "veth7", alias: "COIL:default" },
  ]);
});

Deno.test("surveyOf() reads addresses from host routes of the pod table, each to its link", () => {
  const links = [link(5, "COIL:p:a:eth0"), link(6, "COIL:p:b:eth0")];
  const routes = [
    route("10.0.0.1/32", 5),
    route("fd00::1/128", 5),
    route("fd00::2/128", 6),
    // Not host routes, not of this table.
    route("10.0.0.0/27", 6),
    route("10.0.0.9/32", 6, { table: 254 }),
  ];
  assert.deepEqual(addressesByContainer(links, routes), {
    a: '{"ipv4":"10.0.0.1","ipv6":"fd00::1"}',
    b: '{"ipv6":"fd00::2"}',
  });
});

Deno.test("surveyOf() counts an address of a foreign protocol as in use, and reports its route", () => {
  const foreign = route("10.0.0.1/32", 5, { protocol: 4 });
  const survey = surveyOf([link(5, "COIL:p:a:eth0")], [foreign], OPTIONS);
  assert.equal(String(survey.pods[0]?.addresses.ipv4), "10.0.0.1");
  assert.deepEqual(survey.misplacedRoutes, [foreign]);
});

Deno.test("surveyOf() reports routes of the pod table that lead to no pod", () => {
  const routes = [
    route("10.0.0.1/32", 5),
    route("10.0.0.2/32", 6),
    route("10.0.0.3/32", 7),
    route("10.0.0.4/32", 7, { table: 254 }),
  ];
  const links = [link(5, "COIL:p:a:eth0"), link(6, "COIL-HUSK:p:b:eth0")];
  const { misplacedRoutes } = surveyOf(links, routes, OPTIONS);
  assert.deepEqual(
    misplacedRoutes.map(({ destination }) => String(destination)),
    ["10.0.0.2/32", "10.0.0.3/32"],
  );
});

Deno.test("surveyOf() with --register-from-main prefers the pod table", () => {
  const links = [link(5, "COIL:p:a:eth0"), link(6, "COIL:p:b:eth0")];
  const routes = [
    route("10.0.0.1/32", 5),
    route("10.0.0.8/32", 5, { table: 254 }),
    route("10.0.0.9/32", 6, { table: 254 }),
    // What the kernel itself makes for the pod's link-local address.
    route("fe80::1/128", 6, { table: 254, protocol: 2 }),
  ];
  assert.deepEqual(addressesByContainer(links, routes, true), {
    a: '{"ipv4":"10.0.0.1"}',
    b: '{"ipv4":"10.0.0.9"}',
  });
});

Deno.test("surveyOf() with protocol 0 takes its IPv6 routes, which the kernel keeps as boot, for its own", () => {
  const routes = [
    route("10.0.0.1/32", 5, { protocol: 0 }),
    route("fd02::1/128", 5, { protocol: 3 }),
    route("10.0.0.2/32", 5, { protocol: 3 }),
  ];
  const { misplacedRoutes } = surveyOf(
    [link(5, "COIL:default:a:eth0")],
    routes,
    { ...OPTIONS, protocolId: 0 },
  );
  assert.deepEqual(misplacedRoutes, routes.slice(2));
});

Deno.test("surveyOf() takes no network card for a pod's link, with any alias that a container has given it", () => {
  const { kind: _veth, ...card } = link(5, "COIL:default:a:eth0");
  const survey = surveyOf(
    [
      card,
      { ...card, alias: "COIL-HUSK:default:a:eth0" },
      { ...link(6, "COIL:default"), kind: "vlan" },
    ],
    [route("10.1.0.1/32", 5)],
    OPTIONS,
  );
  assert.deepEqual(survey, {
    pods: [],
    husks: [],
    malformed: [],
    misplacedRoutes: [route("10.1.0.1/32", 5)],
  });
});
