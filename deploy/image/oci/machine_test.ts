import assert from "node:assert/strict";
import { ImageError } from "../base/errors.ts";
import { requireArchitecture } from "./machine.ts";

/** The first bytes of an executable for a machine, elf(5). */
function elf(machine: number, byteOrder = 1): Uint8Array {
  const bytes = new Uint8Array(64);
  bytes.set([0x7f, 0x45, 0x4c, 0x46, 2, byteOrder]);
  new DataView(bytes.buffer).setUint16(18, machine, true);
  return bytes;
}

async function tryFile(bytes: Uint8Array): Promise<string> {
  const file = await Deno.makeTempFile();
  try {
    await Deno.writeFile(file, bytes);
    return await requireArchitecture(file);
  } finally {
    await Deno.remove(file);
  }
}

const [here, there] = Deno.build.arch === "x86_64"
  ? [{ machine: 62, name: "amd64" }, { machine: 183, name: "arm64" }]
  : [{ machine: 183, name: "arm64" }, { machine: 62, name: "amd64" }];

Deno.test("requireArchitecture() takes an executable of this machine", async () => {
  assert.equal(await tryFile(elf(here.machine)), here.name);
});

Deno.test("requireArchitecture() refuses an executable of another machine", async () => {
  await assert.rejects(
    tryFile(elf(there.machine)),
    (error) =>
      error instanceof ImageError &&
      error.message.includes(
        `it is for ${there.name}, and Debian's packages here are for ${here.name}`,
      ),
  );
});

Deno.test("requireArchitecture() refuses what is no executable", async () => {
  for (
    const bytes of [
      new Uint8Array(),
      new TextEncoder().encode("#!/bin/sh\n"),
      elf(here.machine, 2),
      elf(40), // 32-bit ARM
    ]
  ) {
    await assert.rejects(tryFile(bytes), /not a Linux executable/);
  }
  await assert.rejects(requireArchitecture("/nowhere/coil"), /no such file/);
});
