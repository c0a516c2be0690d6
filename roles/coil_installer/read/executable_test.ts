import assert from "node:assert/strict";
import type { Program } from "../base/program.ts";
import { findExecutable } from "./executable.ts";

const SOCKET = { socket: "/run/coil/coild.sock" };

async function contentsOf({ chunks }: Program): Promise<Uint8Array> {
  const parts: Uint8Array<ArrayBuffer>[] = [];
  for await (const chunk of chunks()) parts.push(chunk.slice());
  return await new Blob(parts).bytes();
}

Deno.test("findExecutable() takes an executable of this machine, whole", async () => {
  const { program, hasFront } = await findExecutable("/bin/true", SOCKET);
  const expected = await Deno.readFile("/bin/true");
  assert.equal(program.sizeBytes, expected.length);
  assert.deepEqual(await contentsOf(program), expected);
  assert.equal(hasFront, false);
});

Deno.test("findExecutable() refuses to install the running program when it runs from source", async () => {
  await assert.rejects(
    findExecutable("", SOCKET),
    /it runs from source; build it/,
  );
});

Deno.test("findExecutable() gives an executable's front the path of the socket, and leaves all else", async () => {
  const path = await Deno.makeTempFile();
  try {
    const bytes = await Deno.readFile("/bin/true");
    const view = new DataView(bytes.buffer);
    // The first segment of code, which is behind the headers, becomes the front.
    const table = Number(view.getBigUint64(32, true));
    const headers = Array.from(
      { length: view.getUint16(56, true) },
      (_, i) => table + 56 * i,
    );
    const code = headers.find((at) =>
      view.getUint32(at, true) === 1 && view.getUint32(at + 4, true) === 5
    ) ?? 0;
    const offset = Number(view.getBigUint64(code + 8, true));
    view.setBigUint64(24, view.getBigUint64(code + 16, true), true);
    bytes.set(new TextEncoder().encode("COILFRT1"), offset);
    await Deno.writeFile(path, bytes);

    const { program, hasFront } = await findExecutable(path, SOCKET);
    assert.equal(hasFront, true);
    const expected = bytes.slice();
    const field = new TextEncoder().encode(SOCKET.socket.padEnd(112, "\0"));
    expected.set(field, offset + 80);
    assert.deepEqual(await contentsOf(program), expected);
    assert.notDeepEqual(expected, bytes);
  } finally {
    await Deno.remove(path);
  }
});
