import assert from "node:assert/strict";
import { RouteSocket } from "../netlink/mod.ts";
import { AnsweringTransport } from "../netlink/testing.ts";
import { settingsOf } from "./plan/options.ts";
import { Upkeep } from "./upkeep.ts";

const LOOPBACK = 1;
const POD_LINK = 7;

Deno.test("partsOf() tells which part of a node's network a change is about", () => {
  using socket = RouteSocket.over(new AnsweringTransport(() => []));
  const upkeep = new Upkeep({
    settings: settingsOf({ tableId: 116 }),
    host: socket,
    lists: socket,
    portIds: [],
    nodeAddresses: () => ({}),
    known: { has: (index) => index === POD_LINK, set: () => {} },
    openNetns: () => Promise.resolve(undefined),
  });
  const partsOf = upkeep.partsOf.bind(upkeep);
  assert.deepEqual(partsOf({ kind: "rule", family: "ipv4" }), ["host"]);
  assert.deepEqual(partsOf({ kind: "forwarding" }), ["host"]);
  assert.deepEqual(partsOf({ kind: "route", table: 116 }), ["pods"]);
  assert.deepEqual(partsOf({ kind: "route", table: 119 }), ["export"]);
  for (const kind of ["link", "address"] as const) {
    assert.deepEqual(partsOf({ kind, index: LOOPBACK }), ["export"]);
    assert.deepEqual(partsOf({ kind, index: POD_LINK }), ["pods"]);
    assert.deepEqual(partsOf({ kind, index: POD_LINK + 1 }), []);
  }
  const all = partsOf({ kind: "overflow" });
  assert.deepEqual(all.toSorted(), ["export", "host", "pods"]);
});
