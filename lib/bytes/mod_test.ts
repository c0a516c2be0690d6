import assert from "node:assert/strict";
import { ByteCollector, concatenate } from "./mod.ts";

Deno.test("concatenate() copies all parts, in their order", () => {
  const part = Uint8Array.of(1, 2);
  const whole = concatenate([part, new Uint8Array(), Uint8Array.of(3)]);
  part[0] = 9;
  assert.deepEqual(whole, Uint8Array.of(1, 2, 3));
  assert.equal(whole.buffer.byteLength, 3);
  assert.equal(concatenate([]).length, 0);
});

Deno.test("ByteCollector has all chunks, grows, and begins again in its buffer", () => {
  const collector = new ByteCollector();
  const chunk = Uint8Array.from({ length: 50_000 }, (_, n) => n);
  for (let n = 0; n < 3; n++) collector.add(chunk);
  assert.deepEqual(collector.bytes, concatenate([chunk, chunk, chunk]));
  const { buffer } = collector.bytes;
  collector.clear();
  collector.add(Uint8Array.of(7));
  assert.deepEqual([...collector.bytes], [7]);
  assert.equal(collector.bytes.buffer, buffer);
});
