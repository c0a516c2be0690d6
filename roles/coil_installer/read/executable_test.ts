import assert from "node:assert/strict";
import { findExecutable } from "./executable.ts";

Deno.test("findExecutable() takes an executable of this machine, whole", async () => {
  const { name, sizeBytes, chunks } = await findExecutable("/bin/true");
  assert.equal(name, "executable");
  const expected = await Deno.readFile("/bin/true");
  const read: number[] = [];
  for await (const chunk of chunks()) read.push(...chunk);
  assert.equal(sizeBytes, expected.length);
  assert.deepEqual(new Uint8Array(read), expected);
});

Deno.test("findExecutable() refuses to install the running program when it runs from source", async () => {
  await assert.rejects(findExecutable(""), /it runs from source; build it/);
});

Deno.test("findExecutable() refuses a launcher: as the executable it would call itself without an end", async () => {
  const path = await Deno.makeTempFile();
  try {
    await Deno.copyFile("/bin/true", path);
    await findExecutable(path);
    await Deno.writeTextFile(path, "COIL_SOCKET_PATH/run/s", { append: true });
    await assert.rejects(findExecutable(path), /it is only the launcher/);
  } finally {
    await Deno.remove(path);
  }
});
