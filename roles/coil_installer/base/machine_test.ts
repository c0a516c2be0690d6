import assert from "node:assert/strict";
import { machineOf } from "./machine.ts";

/** The first bytes of an ELF file; elf(5). */
function elf(machine: number, options: { readonly bigEndian?: boolean } = {}) {
  const bytes = new Uint8Array(64);
  bytes.set([0x7f, 0x45, 0x4c, 0x46, 2, options.bigEndian ? 2 : 1]);
  new DataView(bytes.buffer).setUint16(18, machine, !options.bigEndian);
  return bytes;
}

Deno.test("machineOf() knows this machine's executables", async () => {
  using file = await Deno.open(Deno.execPath());
  const start = new Uint8Array(64);
  await file.read(start);
  assert.equal(machineOf(start), Deno.build.arch);
});

Deno.test("machineOf() tells other machines apart", () => {
  assert.equal(machineOf(elf(62)), "x86_64");
  assert.equal(machineOf(elf(183)), "aarch64");
  assert.equal(machineOf(elf(22, { bigEndian: true })), "s390x");
  assert.equal(machineOf(elf(9999)), "machine 9999");
});

Deno.test("machineOf() knows what is no executable", () => {
  for (const text of ["", "#!/bin/sh\n", "\x7fELF", "\x7fELG".padEnd(64)]) {
    assert.equal(machineOf(new TextEncoder().encode(text)), undefined);
  }
});
