import assert from "node:assert/strict";
import { Address, Prefix } from "../../inet/mod.ts";
import type { Link, Route } from "../../netlink/mod.ts";
import { holds } from "./compare.ts";
import { type SideState, stateOf } from "./state.ts";
import type { Step } from "./steps.ts";

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
