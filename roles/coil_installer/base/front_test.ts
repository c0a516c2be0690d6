import assert from "node:assert/strict";
import { InstallError } from "./errors.ts";
import { findSocketField, socketField } from "./front.ts";

const encode = (text: string) => new TextEncoder().encode(text);

Deno.test("socketField() has the path and NULs up to its end", () => {
  const field = new TextDecoder().decode(socketField("/run/coil/coild.sock"));
  assert.equal(field, "/run/coil/coild.sock".padEnd(112, "\0"));
});

Deno.test("socketField() takes up to 100 bytes, however many letters they are", () => {
  const longest = `/run/${"ü".repeat(47)}.`;
  assert.equal(encode(longest).length, 100);
  const field = new TextDecoder().decode(socketField(longest));
  assert.ok(field.startsWith(`${longest}\0`));
  assert.throws(
    () => socketField(`${longest}x`),
    /^InstallError: Cannot use the socket "\/run\/ü+\.x" .*it has 101 bytes/,
  );
});

for (const path of ["run/coild.sock", "", "/run/a\0b"]) {
  Deno.test(`socketField() refuses the path ${JSON.stringify(path)}`, () => {
    assert.throws(() => socketField(path), InstallError);
  });
}

/** An executable for this machine that starts in a segment with these contents. */
function executable(contents: Uint8Array): Uint8Array {
  const bytes = new Uint8Array(4096 + contents.length);
  const view = new DataView(bytes.buffer);
  bytes.set([0x7f, 0x45, 0x4c, 0x46, 2, 1]);
  view.setUint16(16, 3, true); // ET_DYN
  view.setUint16(18, Deno.build.arch === "x86_64" ? 62 : 183, true);
  view.setBigUint64(24, 0x20_0010n, true); // e_entry
  view.setBigUint64(32, 64n, true); // e_phoff
  view.setUint16(54, 56, true);
  view.setUint16(56, 2, true);
  const segments = [[0, 0, 4096], [4096, 0x20_0000, contents.length]];
  segments.forEach(([offset = 0, vaddr = 0, size = 0], i) => {
    const at = 64 + 56 * i;
    view.setUint32(at, 1, true); // PT_LOAD
    view.setBigUint64(at + 8, BigInt(offset), true);
    view.setBigUint64(at + 16, BigInt(vaddr), true);
    view.setBigUint64(at + 32, BigInt(size), true);
  });
  bytes.set(contents, 4096);
  return bytes;
}

const FRONT = new Uint8Array(500);
FRONT.set(encode("COILFRT1"));

async function fieldOf(bytes: Uint8Array): Promise<number | undefined> {
  const path = await Deno.makeTempFile();
  try {
    await Deno.writeFile(path, bytes);
    using file = await Deno.open(path);
    return await findSocketField(file);
  } finally {
    await Deno.remove(path);
  }
}

Deno.test("findSocketField() finds it in the segment in which the executable starts", async () => {
  assert.equal(await fieldOf(executable(FRONT)), 4096 + 80);
});

for (
  const [what, bytes] of [
    ["another segment", executable(new Uint8Array(500))],
    ["a segment that is too small", executable(FRONT.slice(0, 191))],
    ["a file that ends before it", executable(FRONT).slice(0, 4100)],
    ["a file that ends in its table", executable(FRONT).slice(0, 100)],
    ["no executable", encode("#!/bin/sh\n")],
    ["nothing", new Uint8Array()],
  ] as const
) {
  Deno.test(`findSocketField() finds nothing in ${what}`, async () => {
    assert.equal(await fieldOf(bytes), undefined);
  });
}
