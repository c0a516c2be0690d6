import assert from "node:assert/strict";
import { ProtoReader } from "./mod.ts";

/** Each field of a message: its number, and what of it can be read. */
function read(bytes: readonly number[]): string[] {
  const reader = new ProtoReader(Uint8Array.from(bytes));
  const found: string[] = [];
  while (reader.next()) {
    found.push(`${reader.field}: ${reader.number} ${[...reader.bytes]}`);
  }
  return found;
}

Deno.test("ProtoReader reads numbers and bytes, and skips what has a fixed size", () => {
  // protobuf.dev/programming-guides/encoding: field 1 is 150, field 2 "testing".
  assert.deepEqual(read([0x08, 0x96, 0x01]), ["1: 150 "]);
  const testing = [..."testing"].map((c) => c.charCodeAt(0));
  const reader = new ProtoReader(Uint8Array.of(0x12, 7, ...testing));
  assert.ok(reader.next());
  assert.deepEqual([reader.field, reader.text], [2, "testing"]);
  assert.ok(!reader.next());
  const fixed = [0x09, ...Array(8).fill(1), 0x0d, ...Array(4).fill(2)];
  assert.deepEqual(
    read([...fixed, 0x80, 0x02, 5]).at(-1)?.split(" ").slice(0, 2),
    ["32:", "5"],
  );
});

Deno.test("ProtoReader.enter() reads what is inside, and leave() goes on behind it", () => {
  // Field 1 is a message: 1 is 1, 2 a message with 3 is 5; field 2 is 9.
  const bytes = [0x0a, 6, 0x08, 1, 0x12, 2, 0x18, 5, 0x10, 9];
  const reader = new ProtoReader(Uint8Array.from(bytes));
  assert.ok(reader.next());
  const outer = reader.enter();
  assert.ok(reader.next());
  assert.deepEqual([reader.field, reader.number], [1, 1]);
  assert.ok(reader.next());
  const middle = reader.enter();
  assert.ok(reader.next());
  assert.deepEqual([reader.field, reader.number], [3, 5]);
  assert.ok(!reader.next());
  reader.leave(middle);
  assert.ok(!reader.next());
  reader.leave(outer);
  assert.ok(reader.next());
  assert.deepEqual([reader.field, reader.number], [2, 9]);
  assert.ok(!reader.next());
});

Deno.test("ProtoReader.leave() passes over what was not read, and numbers have nothing inside", () => {
  const reader = new ProtoReader(Uint8Array.of(0x0a, 2, 0x08, 1, 0x10, 9));
  assert.ok(reader.next());
  reader.leave(reader.enter());
  assert.ok(reader.next());
  assert.deepEqual([reader.field, reader.number], [2, 9]);
  const outer = reader.enter();
  assert.ok(!reader.next());
  reader.leave(outer);
  assert.ok(!reader.next());
});

Deno.test("ProtoReader.text is UTF-8, of any length", () => {
  for (const text of ["", "é ü", "a".repeat(5_000), "€".repeat(400)]) {
    const bytes = new TextEncoder().encode(text);
    const length = [bytes.length & 0x7f | 0x80, bytes.length >> 7];
    const reader = new ProtoReader(Uint8Array.of(0x0a, ...length, ...bytes));
    assert.ok(reader.next());
    assert.equal(reader.text, text);
  }
  const bad = new ProtoReader(Uint8Array.of(0x0a, 2, 0xc3, 0x28));
  assert.ok(bad.next());
  assert.throws(() => bad.text, SyntaxError);
});

for (
  const [what, bytes] of [
    ["a number that is cut short", [0x08, 0x96]],
    ["a number of eleven bytes", [0x08, ...Array(10).fill(0xff), 1]],
    ["bytes that are cut short", [0x0a, 3, 1, 2]],
    ["a group", [0x0b]],
    ["a tag that is cut short", [0x80]],
  ] as const
) {
  Deno.test(`ProtoReader refuses ${what}`, () => {
    assert.throws(() => read(bytes), SyntaxError);
  });
}
