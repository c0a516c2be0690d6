import assert from "node:assert/strict";
import { Prefix } from "../../inet/mod.ts";
import type { Route, RouteSocket } from "../../netlink/mod.ts";
import { routedWithin } from "./steady_routes.ts";

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
