import assert from "node:assert/strict";
import type { Connection } from "../../connection/connection.ts";
import { TableReader } from "./reader.ts";

Deno.test("TableReader lists no more rules than a bound above those that are planned", async () => {
  const bounds: (number | undefined)[] = [];
  const connection = {
    dump(...[, , options]: Parameters<Connection["dump"]>): Promise<never[]> {
      bounds.push(options?.atMost);
      return Promise.resolve([]);
    },
  } as unknown as Connection; // all that a list needs
  const reader = new TableReader(connection);
  await reader.listRules("egress");
  await reader.listRules("egress", { planned: 15_000 });
  assert.deepEqual(bounds, [10_000, 25_000]);
});
