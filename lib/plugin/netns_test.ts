import assert from "node:assert/strict";
import { isOwnNetns } from "./netns.ts";

Deno.test("isOwnNetns() knows its own namespace", () => {
  assert.equal(isOwnNetns("/proc/self/ns/net"), true);
  assert.equal(isOwnNetns("/proc/self/ns/mnt"), false);
});

Deno.test("isOwnNetns() takes a path that leads nowhere for another's", () => {
  // DEL would fail for ever, after everything is released.
  assert.equal(isOwnNetns("/nonexistent/net"), false);
  assert.equal(isOwnNetns("/dev/null/net"), false);
  assert.equal(isOwnNetns(`/${"x".repeat(300)}`), false);
  assert.equal(isOwnNetns(`/run/${"x/".repeat(4_000)}`), false);
});

Deno.test("isOwnNetns() takes a path that leads to itself for another's", async () => {
  const directory = await Deno.makeTempDir();
  const path = `${directory}/loop`;
  await Deno.symlink(path, path);
  assert.equal(isOwnNetns(path), false);
  await Deno.remove(directory, { recursive: true });
});
