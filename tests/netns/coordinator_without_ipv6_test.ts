// A kernel that was started with `ipv6.disable=1`: a virtual machine's, since
// that of the machine has IPv6, and hiding its files would not take it away.
import assert from "node:assert/strict";
import { ensureVm, runInVm } from "../lab/vm/mod.ts";
import { netnsTest } from "./testing.ts";

const TESTS = new URL("./coordinator_without_ipv6_main.ts", import.meta.url)
  .pathname;

netnsTest(
  "coordinator: a kernel without IPv6 serves a pod's whole life",
  async () => {
    const vm = await ensureVm();
    const decoder = new TextDecoder();
    let said = "";
    const status = await runInVm(vm, {
      command: [
        ...[Deno.execPath(), "test", "--no-check", "--allow-all"],
        ...["--unstable-net", TESTS],
      ],
      kernelArgs: ["ipv6.disable=1"],
      env: { COIL_TEST_STRICT: "1", NO_COLOR: "1" },
      timeoutMs: 180_000,
      merged: true,
    }, {
      stdout: (bytes) => said += decoder.decode(bytes, { stream: true }),
    });
    assert.equal(status, 0, said);
    assert.match(said, /3 passed/);
  },
);
