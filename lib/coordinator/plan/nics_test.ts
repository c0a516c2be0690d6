import assert from "node:assert/strict";
import { CniError } from "../../cni/mod.ts";
import { Address, Prefix } from "../../inet/mod.ts";
import type { Route, Rule } from "../../netlink/mod.ts";
import { addressEntry } from "../../netlink/testing.ts";
import { linkOf } from "../testing.ts";
import { findNicTable, isNicRule } from "./nics.ts";

const [NET1, NET2] = [4, 5] as const;

function rule(source: string, table: number, priority = 1000 + table): Rule {
  const prefix = Prefix.parse(source);
  return { family: "ipv4", priority, table, protocol: 32, source: prefix };
}

function route(index: number, table: number, protocol = 32): Route {
  return {
    family: "ipv4",
    destination: Prefix.parse("10.7.0.0/24"),
    index,
    table,
    protocol,
    scope: "link",
    type: "unicast",
  };
}

/** The table that net2 gets beside this; net1 has 10.7.0.100. */
function tableOf(
  has: { readonly rules?: Rule[]; readonly routes?: Route[] },
): number {
  const pod = {
    links: [linkOf(NET1, { name: "net1" }), linkOf(NET2, { name: "net2" })],
    addresses: [
      addressEntry(NET1, "10.7.0.100/24"),
      addressEntry(NET2, "10.8.0.100/24"),
    ],
    rules: [],
    routes: [],
    neighbours: [],
    ...has,
  };
  const own = [Address.parse("10.8.0.100")];
  const { table, priority } = findNicTable(pod, "net2", own);
  assert.equal(priority, 1000 + table);
  return table;
}

Deno.test("findNicTable() finds an interface's table by a rule of its address, else by its own route", () => {
  assert.equal(tableOf({ rules: [rule("10.8.0.100/32", 107)] }), 107);
  assert.equal(tableOf({ routes: [route(NET2, 107)] }), 107);
  assert.equal(tableOf({ routes: [route(NET1, 107), route(NET2, 108)] }), 108);
  assert.equal(tableOf({ routes: [route(NET2, 107, 3)] }), 101);
  // Of another program, or of another interface's address.
  const others = [rule("10.8.0.100/32", 107, 5), rule("10.7.0.100/32", 108)];
  assert.equal(tableOf({ rules: others }), 101);
});

Deno.test("findNicTable() takes the lowest table that nothing uses", () => {
  assert.equal(tableOf({}), 101);
  assert.equal(tableOf({ rules: [rule("10.7.0.100/32", 101)] }), 102);
  // Its interface is gone.
  assert.equal(tableOf({ rules: [rule("10.9.0.100/32", 101)] }), 101);
  // Another program's rule has the table, or only the priority.
  const foreign = { ...rule("10.9.0.100/32", 101), protocol: 3 };
  assert.equal(tableOf({ rules: [foreign] }), 102);
  assert.equal(tableOf({ rules: [{ ...foreign, priority: 5 }] }), 102);
  assert.equal(tableOf({ rules: [{ ...foreign, table: 7 }] }), 102);
});

Deno.test("findNicTable() passes over a table with another program's route, or a default route", () => {
  assert.equal(tableOf({ routes: [route(NET1, 101)] }), 101);
  assert.equal(tableOf({ routes: [route(NET1, 101, 3)] }), 102);
  const whole = { ...route(NET1, 101), destination: undefined };
  assert.equal(tableOf({ routes: [whole] }), 102);
});

Deno.test("findNicTable() refuses an interface when all tables are in use", () => {
  const routes = Array.from({ length: 99 }, (_, n) => route(NET1, 101 + n, 3));
  assert.equal(tableOf({ routes: routes.slice(0, -1) }), 199);
  assert.throws(
    () => tableOf({ routes }),
    (error) => error instanceof CniError && error.code === 11,
  );
});

Deno.test("isNicRule() knows the coordinator's rules from an address to an interface's table", () => {
  assert.ok(isNicRule(rule("10.7.0.100/32", 100)));
  assert.ok(isNicRule(rule("10.7.0.100/32", 200)));
  assert.ok(!isNicRule(rule("10.7.0.100/32", 99)));
  assert.ok(!isNicRule(rule("10.7.0.100/32", 101, 1000)));
  assert.ok(!isNicRule({ ...rule("10.7.0.100/32", 101), protocol: 3 }));
  assert.ok(!isNicRule({ ...rule("10.7.0.100/32", 101), source: undefined }));
});
