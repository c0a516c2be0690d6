import assert from "node:assert/strict";
import { dual } from "../testing.ts";
import { AddressTable } from "./address_table.ts";
import type { HeldBlock } from "./held_block.ts";

let uid = 0;

function add(table: AddressTable, pool: string, prefixes: string): HeldBlock {
  return table.addBlock({
    pool,
    name: `${pool}-${++uid}`,
    uid: `${uid}`,
    index: uid,
    prefixes: dual(prefixes),
    reserved: false,
    deleting: false,
  }, 0);
}

function give(table: AddressTable, pool: string): string | undefined {
  const key = { pool, containerId: `c${++uid}`, ifname: "eth0" };
  return table.assign(key, { now: 0 })?.addresses.ipv4?.toString();
}

Deno.test("a block overlaps another if one family does", () => {
  const table = new AddressTable({ cooldownMs: 0 });
  add(table, "a", "10.0.0.0/30 fd00::/126");
  const both = add(table, "b", "10.9.0.0/30 fd00::/126");
  const one = add(table, "c", "10.0.0.0/31");
  const none = add(table, "d", "10.1.0.0/30 fd01::/126");
  assert.deepEqual(
    [both, one, none].map(({ holds }) => [...holds]),
    [["overlapping"], ["overlapping"], []],
  );
});

Deno.test("a block overlaps as long as one of those before it that it overlaps is there", () => {
  const table = new AddressTable({ cooldownMs: 0 });
  const first = add(table, "a", "10.0.0.0/31");
  const second = add(table, "a", "10.0.0.2/31");
  const other = add(table, "a", "10.5.0.0/31");
  const block = add(table, "b", "10.0.0.0/30");
  for (const gone of [other, first]) {
    table.removeBlock(gone);
    assert.equal(block.isUsable, false);
  }
  table.removeBlock(second);
  assert.equal(block.isUsable, true);
});

Deno.test("what is given out of a block is not given out of one that overlaps it when that is free to use", () => {
  const table = new AddressTable({ cooldownMs: 0 });
  const first = add(table, "a", "10.0.0.0/31");
  add(table, "b", "10.0.0.0/31");
  assert.equal(give(table, "a"), "10.0.0.0");
  table.removeBlock(first);
  assert.equal(give(table, "b"), "10.0.0.1");
  assert.equal(give(table, "b"), undefined);
});
