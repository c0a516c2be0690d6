import assert from "node:assert/strict";
import { Prefix } from "../../inet/mod.ts";
import type { Route, RouteSocket } from "../../netlink/mod.ts";
import { listSteadyRoutes, routedWithin } from "./steady_routes.ts";

/** A kernel whose lists of routes are these, by the last number of each, and the last one from then on. */
function listing(...lists: readonly string[]) {
  let calls = 0;
  const socket: Pick<RouteSocket, "listRoutes"> = {
    listRoutes: ({ table } = {}) => {
      const numbers = [...lists[Math.min(calls++, lists.length - 1)] ?? ""];
      return Promise.resolve(
        numbers.map((n) =>
          ({ destination: Prefix.parse(`10.1.0.${n}/32`), table }) as Route
        ),
      );
    },
  };
  return {
    list: async (tables = [116]) => {
      const routes = await listSteadyRoutes(socket, tables);
      const numbers = routes.map(({ destination }) => `${destination}`.at(-4));
      return `${numbers.join("")} after ${calls}`;
    },
  };
}

Deno.test("listSteadyRoutes() lists until two lists in a row agree", async () => {
  assert.equal(await listing("").list(), " after 2");
  assert.equal(await listing("12").list(), "12 after 2");
  assert.equal(await listing("12", "1", "12").list(), "12 after 4");
  assert.equal(await listing("12", "13", "123").list(), "123 after 4");
  assert.equal(await listing("12").list([116, 254]), "1212 after 4");
});

Deno.test("listSteadyRoutes() has all that any list had when none agree", async () => {
  const routes = await listing("12", "23", "3", "14", "24", "5").list();
  assert.equal(routes, "12345 after 6");
});

Deno.test("routedWithin() has the host routes to an address of any of the prefixes", async () => {
  const routes = ["10.1.0.5/32", "10.2.0.5/32", "10.3.0.5/32", "10.1.0.0/24"]
    .map((text) => ({ destination: Prefix.parse(text) }) as Route);
  const socket: Pick<RouteSocket, "listRoutes"> = {
    listRoutes: () => Promise.resolve(routes),
  };
  const prefixes = ["10.1.0.0/16", "10.2.0.0/16"].map((p) => Prefix.parse(p));
  const found = await routedWithin(socket, { table: 116, prefixes });
  assert.deepEqual(found.map(String), ["10.1.0.5", "10.2.0.5"]);
  assert.deepEqual(
    await routedWithin(socket, { table: 116, prefixes: [] }),
    [],
  );
});
