import assert from "node:assert/strict";
import { openLibc } from "../../../lib/linux/mod.ts";
import { lockSocket, SocketTakenError } from "./socket_lock.ts";

openLibc(); // stays open, so it must not be counted as some test's leak

function refusalOf(socketPath: string): string {
  try {
    using _lock = lockSocket(socketPath);
  } catch (error) {
    assert.ok(error instanceof SocketTakenError);
    return error.message;
  }
  assert.fail("the lock was given twice");
}

Deno.test("lockSocket() gives a socket to one process, and tells the next one who has it", async () => {
  const dir = await Deno.makeTempDir();
  const socketPath = `${dir}/coild.sock`;
  {
    using _lock = lockSocket(socketPath);
    const taken = refusalOf(socketPath);
    assert.match(taken, new RegExp(`: process ${Deno.pid} already does`));
    // As when the disk was full.
    await Deno.writeTextFile(`${socketPath}.lock`, "");
    assert.match(refusalOf(socketPath), /: another process already does/);
  }
  using _again = lockSocket(socketPath);
  await Deno.remove(dir, { recursive: true });
});
