import assert from "node:assert/strict";
import { Prefix } from "../../inet/mod.ts";
import type { Route } from "../../netlink/mod.ts";
import { listSteadyRoutes } from "./steady_routes.ts";

function route(n: number): Route {
  return {
    family: "ipv6",
    destination: Prefix.parse(`fd02::${n}/128`),
    index: n,
    table: 116,
    protocol: 30,
    scope: "global",
    type: "unicast",
  };
}

/** A kernel that answers with these lists, one after the other, and then with the last one for ever. */
function kernelOf(...lists: readonly (readonly number[])[]) {
  let asked = 0;
  return {
    get asked() {
      return asked;
    },
    listRoutes(): Promise<Route[]> {
      const list = lists[Math.min(asked++, lists.length - 1)] ?? [];
      return Promise.resolve(list.map(route));
    },
  };
}

function indexes(routes: readonly Route[]): (number | undefined)[] {
  return routes.map(({ index }) => index).toSorted();
}

Deno.test("listSteadyRoutes() asks twice when nothing changes", async () => {
  const kernel = kernelOf([1, 2, 3]);
  const routes = await listSteadyRoutes(kernel, [116]);
  assert.deepEqual(indexes(routes), [1, 2, 3]);
  assert.equal(kernel.asked, 2);
});

Deno.test("listSteadyRoutes() does not lose a route that one list skipped", async () => {
  const kernel = kernelOf([1, 3], [1, 2, 3]);
  const routes = await listSteadyRoutes(kernel, [116]);
  assert.deepEqual(indexes(routes), [1, 2, 3]);
});

Deno.test("listSteadyRoutes() has each route once, though lists repeat some", async () => {
  const routes = await listSteadyRoutes(kernelOf([1, 2, 2, 3]), [116]);
  assert.deepEqual(indexes(routes), [1, 2, 3]);
});

Deno.test("listSteadyRoutes() returns all it has seen when the table never rests", async () => {
  const lists = Array.from({ length: 20 }, (_, n) => [1, n + 2]);
  const kernel = kernelOf(...lists);
  const routes = await listSteadyRoutes(kernel, [116]);
  assert.ok(kernel.asked < lists.length);
  assert.deepEqual(
    indexes(routes),
    [...new Set(lists.slice(0, kernel.asked).flat())].toSorted(),
  );
});
