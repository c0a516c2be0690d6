import assert from "node:assert/strict";
import { concatenate } from "./mod.ts";

Deno.test("concatenate() copies all parts, in their order", () => {
  const part = Uint8Array.of(1, 2);
  const whole = concatenate([part, new Uint8Array(), Uint8Array.of(3)]);
  part[0] = 9;
  assert.deepEqual(whole, Uint8Array.of(1, 2, 3));
  assert.equal(whole.buffer.byteLength, 3);
  assert.equal(concatenate([]).length, 0);
});
