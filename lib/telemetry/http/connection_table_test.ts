import assert from "node:assert/strict";
import { ConnectionTable } from "./connection_table.ts";

function tableOf(maxConnections: number, maxPerPeer: number) {
  const closed: string[] = [];
  const table = new ConnectionTable<ReturnType<typeof connection>>({
    maxConnections,
    maxPerPeer,
  });
  const connection = (name: string, sinceMs: number, isIdle = true) => ({
    name,
    sinceMs,
    isIdle,
    peer: name.charAt(0),
    close: () => closed.push(name),
  });
  const admit = (name: string, sinceMs: number, isIdle = true) => {
    const isAdmitted = table.makeRoom(name.charAt(0));
    if (isAdmitted) table.add(connection(name, sinceMs, isIdle));
    return isAdmitted;
  };
  return { admit, closed, table };
}

Deno.test("ConnectionTable lets a peer that has its number replace its own oldest connection", () => {
  const { admit, closed } = tableOf(10, 2);
  for (const [n, name] of ["a2", "b1", "a1"].entries()) admit(name, 9 - n);
  assert.ok(admit("a3", 10));
  assert.deepEqual(closed, ["a1"]);
});

Deno.test("ConnectionTable takes room from the peer that has the most", () => {
  const { admit, closed, table } = tableOf(5, 4);
  for (const [n, name] of ["b1", "a1", "a2", "a3", "c1"].entries()) {
    admit(name, n);
  }
  assert.ok(admit("d1", 10));
  assert.ok(admit("e1", 11));
  assert.deepEqual(closed, ["a1", "a2"]);
  assert.equal(table.all.size, 5);
  // All have one: the oldest goes.
  assert.ok(admit("f1", 12));
  assert.deepEqual(closed, ["a1", "a2", "b1"]);
});

Deno.test("ConnectionTable closes none that is being answered for a peer that has as many", () => {
  const { admit, closed } = tableOf(3, 2);
  admit("a1", 0, false);
  admit("a2", 1, false);
  assert.equal(admit("a3", 2), false);
  admit("b1", 3, false);
  assert.equal(admit("b2", 4), false);
  assert.deepEqual(closed, []);
});

Deno.test("ConnectionTable lets a newcomer in when all connections of others are being answered", () => {
  const { admit, closed } = tableOf(4, 3);
  for (const [n, name] of ["b1", "a1", "a2", "a3"].entries()) {
    admit(name, n, false);
  }
  assert.ok(admit("c1", 10, false));
  assert.deepEqual(closed, ["a1"]);
  assert.ok(admit("d1", 11, false));
  assert.deepEqual(closed, ["a1", "a2"]);
  // Each has one.
  assert.equal(admit("e1", 12, false), false);
});

Deno.test("ConnectionTable takes what does nothing of the peer that has the most", () => {
  const { admit, closed } = tableOf(4, 3);
  admit("b1", 0);
  admit("a1", 1, false);
  admit("a2", 2);
  admit("a3", 3);
  assert.ok(admit("c1", 10));
  assert.deepEqual(closed, ["a2"]);
});

Deno.test("ConnectionTable makes do with half of its connections after a retreat", () => {
  const { admit, closed, table } = tableOf(8, 4);
  for (const [n, name] of ["a1", "a2", "a3", "b1", "b2", "c1"].entries()) {
    admit(name, n);
  }
  table.retreat();
  assert.deepEqual(closed, ["a1", "a2", "b1"]);
  assert.ok(admit("d1", 10));
  assert.equal(table.all.size, 3);
  table.recover();
  assert.ok(admit("e1", 11));
  assert.equal(table.all.size, 4);
});

Deno.test("ConnectionTable forgets a connection once", () => {
  const { admit, table } = tableOf(9, 1);
  admit("a1", 0, false);
  const [connection] = table.all;
  assert.ok(connection);
  table.delete(connection);
  table.delete(connection);
  assert.ok(admit("a2", 1, false));
  assert.equal(admit("a3", 1), false);
});
