import assert from "node:assert/strict";
import { Elf, ElfError, Segment } from "./elf.ts";

Deno.test("Elf refuses what is no 64-bit PIE", () => {
  const header = new Uint8Array(128);
  assert.throws(() => new Elf(new Uint8Array(3)), ElfError);
  assert.throws(() => new Elf(header), ElfError);
  header.set([0x7f, 0x45, 0x4c, 0x46, 2, 1]);
  assert.throws(() => new Elf(header), /position-independent/);
});

Deno.test("Elf finds what the packer needs in this very deno", async () => {
  const elf = new Elf(await Deno.readFile(Deno.execPath()));
  assert.ok(elf.loads.length > 1);
  assert.ok(elf.header(Segment.INTERP).filesz > 0n);
  const slot = elf.environSlot();
  const isInside = elf.loads.some(({ vaddr, memsz }) =>
    slot >= vaddr && slot < vaddr + memsz
  );
  assert.ok(isInside && slot !== 0n);
  assert.throws(() => elf.header(12345), ElfError);
});
