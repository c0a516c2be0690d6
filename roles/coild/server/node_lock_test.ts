import assert from "node:assert/strict";
import { ERRNO, LinuxError } from "../../../lib/linux/mod.ts";
import { configureLogging } from "../../../lib/telemetry/mod.ts";
import { lockNode } from "./node_lock.ts";

Deno.test("lockNode() lets coild serve where a security policy forbids the lock, and says so", () => {
  const said: string[] = [];
  configureLogging({ write: (line) => void said.push(line) });
  const lock = lockNode(() => {
    throw new LinuxError("lock", { syscall: "flock", errno: ERRNO.EACCES });
  });
  assert.equal(lock, undefined);
  assert.match(said.join(), /second coild .* would not be noticed.*EACCES/);
});
