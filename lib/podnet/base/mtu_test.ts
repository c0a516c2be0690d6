import assert from "node:assert/strict";
import { Prefix } from "../../inet/mod.ts";
import type { Link, Route } from "../../netlink/mod.ts";
import { detectMtu } from "./mtu.ts";

const LOOPBACK_FLAG = 0x8;

function link(index: number, mtu: number, more: Partial<Link> = {}): Link {
  return {
    index,
    mtu,
    name: `l${index}`,
    up: true,
    lowerUp: true,
    group: 0,
    flags: 1,
    ...more,
  };
}

function route(text: string, index: number, more: Partial<Route> = {}): Route {
  const prefix = Prefix.parse(text);
  return {
    family: prefix.family,
    destination: prefix.length === 0 ? undefined : prefix,
    index,
    table: 254,
    protocol: 3,
    scope: "global",
    type: "unicast",
    ...more,
  };
}

const LINKS = [
  link(1, 65536, { flags: 1 | LOOPBACK_FLAG }),
  link(2, 9000),
  link(3, 1450, { kind: "vxlan" }),
  link(4, 1500),
  link(5, 1280, { up: false }),
];

const CASES: readonly (readonly [string, readonly Route[], number])[] = [
  ["the IPv4 default route", [route("0.0.0.0/0", 3), route("::/0", 2)], 1450],
  ["the IPv6 default route without an IPv4 one", [route("::/0", 2)], 9000],
  [
    "the longest match",
    [route("0.0.0.0/0", 4), route("192.0.0.0/24", 2), route("192.0.0.0/16", 3)],
    9000,
  ],
  [
    "no route to elsewhere",
    [route("0.0.0.0/0", 3), route("10.0.0.0/8", 2)],
    1450,
  ],
  [
    "the least metric",
    [
      route("0.0.0.0/0", 3, { metric: 600 }),
      route("0.0.0.0/0", 4, { metric: 100 }),
    ],
    1500,
  ],
  [
    "the least metric, which may be none at all",
    [route("0.0.0.0/0", 3), route("0.0.0.0/0", 4, { metric: 100 })],
    1450,
  ],
  [
    "the smallest of several links at the same distance",
    [route("::/0", 2, { metric: 1024 }), route("::/0", 4, { metric: 1024 })],
    1500,
  ],
  ["no route of another table", [route("0.0.0.0/0", 3, { table: 116 })], 1500],
  [
    "no route that leads nowhere",
    [route("0.0.0.0/0", 3, { type: "blackhole" })],
    1500,
  ],
  ["the smallest physical link that is up, without a route", [], 1500],
];

for (const [name, routes, mtu] of CASES) {
  Deno.test(`detectMtu() takes the link of ${name}`, () => {
    assert.equal(detectMtu(LINKS, routes), mtu);
  });
}

Deno.test("detectMtu() leaves it to the kernel where there is nothing", () => {
  assert.equal(detectMtu([LINKS[0] ?? link(1, 1)], []), 0);
});
