import assert from "node:assert/strict";
import { writeAll } from "./write_all.ts";

Deno.test("writeAll() goes on until all is written", async () => {
  const written: number[] = [];
  const write = (bytes: Uint8Array) => {
    const taken = bytes.subarray(0, 2);
    written.push(...taken);
    return Promise.resolve(taken.length);
  };
  await writeAll({ write }, Uint8Array.of(1, 2, 3, 4, 5));
  assert.deepEqual(written, [1, 2, 3, 4, 5]);
});
