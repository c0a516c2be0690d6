import assert from "node:assert/strict";
import { Netns } from "../../lib/linux/mod.ts";
import { SourceTable, SourceTableError } from "../../lib/podnet/mod.ts";
import { eventually } from "../lab/wait.ts";
import { addPod, ping, testNode } from "../netns/podnet_testing.ts";
import { run } from "../netns/testing.ts";

const MODULES = ["nft_fib_inet", "nft_fib_ipv6", "nft_fib_ipv4", "nft_fib"];

Deno.test("a kernel without nft_fib_inet: the error says so, pods are served all the same, and the table is there when the kernel has it", async () => {
  await using undo = new AsyncDisposableStack();
  undo.defer(() => run("modprobe", ["--all", ...MODULES]).then(() => {}));
  await eventually("the kernel to let the modules go", async () => {
    await run("modprobe", ["--remove", ...MODULES]);
    return true;
  });
  const nothing = await Deno.makeTempDir();
  const modules = `/lib/modules/${Deno.osRelease()}`;
  await run("mount", ["--bind", nothing, modules]);
  {
    await using bare = new AsyncDisposableStack();
    bare.defer(() => run("umount", [modules]).then(() => {}));
    await using node = await testNode();
    using hostNetns = Netns.open(node.host.path);
    await using table = new SourceTable({ hostNetns });
    await node.net.init();
    await assert.rejects(() => table.ensure(), (error: Error) => {
      assert.ok(error instanceof SourceTableError, String(error));
      assert.match(error.message, /needs nf_tables with module nft_fib_inet/);
      return true;
    });
    const { pod, request, result } = await addPod(node, 1);
    await ping(pod, "10.20.30.41");
    await node.net.check(request);
    const setting = `net.ipv4.conf.${result.hostName}.rp_filter`;
    const value = await node.host.exec("sysctl", "-n", setting);
    assert.equal(value.trim(), "1");
    await bare.disposeAsync();
    assert.equal(await table.ensure(), true);
    assert.deepEqual(await table.inspect(), []);
  }
});
