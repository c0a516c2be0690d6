import assert from "node:assert/strict";
import { prefixEnd } from "./client.ts";

const text = (value: string) => new TextEncoder().encode(value);

Deno.test("prefixEnd() is the first key after all of the prefix", () => {
  assert.deepEqual(prefixEnd(text("/coil/")), text("/coil0"));
  assert.deepEqual(
    prefixEnd(new Uint8Array([1, 0xff, 0xff])),
    new Uint8Array([2]),
  );
  assert.deepEqual(prefixEnd(new Uint8Array([0xff])), new Uint8Array([0]));
  assert.deepEqual(prefixEnd(new Uint8Array()), new Uint8Array([0]));
});
