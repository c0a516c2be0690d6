import assert from "node:assert/strict";
import { openLibc } from "./libc.ts";
import { trimHeap } from "./memory.ts";

openLibc();

Deno.test("trimHeap() answers whether there was something to give back", () => {
  assert.equal(typeof trimHeap(), "boolean");
  // Called twice in a row, the second time finds nothing new and does no harm.
  trimHeap();
});
