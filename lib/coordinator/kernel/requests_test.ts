import assert from "node:assert/strict";
import { Address, Prefix } from "../../inet/mod.ts";
import type { Link, Route } from "../../netlink/mod.ts";
import { direct } from "../plan/plan.ts";
import type { State } from "../state/state.ts";
import type { NetlinkStep } from "../state/steps.ts";
import { addRequest, doRequest } from "./requests.ts";

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
