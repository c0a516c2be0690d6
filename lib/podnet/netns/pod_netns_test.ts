import assert from "node:assert/strict";
import { LinuxError, openLibc } from "../../linux/mod.ts";
import { NetnsNotFoundError } from "../base/errors.ts";
import { openPodNetns, refuseHost, tryOpenPodNetns } from "./pod_netns.ts";

openLibc(); // stays open, so it must not be counted as some test's leak

Deno.test("openPodNetns() finds nothing where something other than a network namespace is", async () => {
  await using undo = new AsyncDisposableStack();
  const directory = await Deno.makeTempDir();
  undo.defer(() => Deno.remove(directory, { recursive: true }));
  const file = `${directory}/file`;
  await Deno.writeTextFile(file, "");
  const socket = `${directory}/socket`;
  undo.use(Deno.listen({ transport: "unix", path: socket }));
  const loop = `${directory}/loop`;
  await Deno.symlink(loop, loop);
  const others = [
    ...[directory, file, socket, "/proc/self/ns/mnt"],
    ...[loop, `/${"x".repeat(300)}`, `/run/${"x/".repeat(4_000)}`],
  ];
  for (const path of [`${directory}/absent`, `${file}/below`, ...others]) {
    assert.throws(() => openPodNetns(path), NetnsNotFoundError, path);
    assert.equal(tryOpenPodNetns(path), undefined, path);
  }
});

Deno.test("openPodNetns() hands on why it cannot look", () => {
  // May only be written, also by root.
  const path = "/proc/sys/net/ipv4/route/flush";
  for (const open of [openPodNetns, tryOpenPodNetns]) {
    assert.throws(
      () => open(path),
      (error) => error instanceof LinuxError && error.code === "EACCES",
    );
  }
});

Deno.test("refuseHost() refuses the namespace that the daemon is in", () => {
  using own = openPodNetns("/proc/self/ns/net");
  assert.throws(() => refuseHost(own, undefined), TypeError);
  assert.throws(() => refuseHost(own, own), TypeError);
});
