import assert from "node:assert/strict";
import type { Connection } from "../../connection/connection.ts";
import { TableReader } from "./reader.ts";

Deno.test("TableReader lists no more rules than a bound", async () => {
  const bounds: (number | undefined)[] = [];
  const connection = {
    dump(...[, , options]: Parameters<Connection["dump"]>): Promise<never[]> {
      bounds.push(options?.atMost);
      return Promise.resolve([]);
    },
  } as unknown as Connection; // all that a list needs
  await new TableReader(connection).listRules("egress");
  assert.deepEqual(bounds, [10_000]);
});
