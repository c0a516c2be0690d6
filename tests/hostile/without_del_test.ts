// A runtime, or an admin, that is careless with sandboxes: namespaces that are
// deleted without a DEL, and a new container in the namespace of the last one.
import assert from "node:assert/strict";
import * as path from "node:path";
import { eventually } from "../lab/mod.ts";
import { CoildLab } from "../apiserver/coild_lab.ts";

const ARGS = ["--cooldown=0s", "--addressblock-gc-interval=1s"];

Deno.test("sandboxes that go without a DEL cost no address and no pod", async (t) => {
  await using lab = await CoildLab.start({ name: "hostilewithoutdel" });
  const node = lab.node();
  await lab.createPool("default", [{ ipv4: "10.131.0.0/26" }], 3);
  await lab.createPool("one", [{ ipv4: "10.131.1.1/32" }], 0);
  await lab.createNamespace("one", { "coil.cybozu.com/pool": "one" });
  lab.granter.start();
  const socketPath = path.join(lab.plane.runDir, "full.sock");
  // Each write to it fails: no space left on the device.
  await Deno.symlink("/dev/full", `${socketPath}.lock`);
  await using coild = await lab.startCoild(node, ARGS, { socketPath });

  await t.step("a full disk does not keep coild from starting", async () => {
    assert.match(await coild.process.logs(), /to the lock file; continuing/);
  });

  await t.step(
    "GC frees the address of a pod whose namespace was deleted",
    async () => {
      const [gone, next] = [
        await lab.createPod("gone", { namespace: "one" }),
        await lab.createPod("next", { namespace: "one" }),
      ];
      const addresses = await coild.addresses(gone);
      await lab.deleteNetns(gone);
      await eventually("the host veth to go with it", async () => {
        const links = await node.run("ip", "-o", "link");
        return !links.includes("veth");
      });
      await coild.call("Gc", undefined, { valid: [] });
      // The pool has no other one.
      assert.deepEqual(await coild.addresses(next), addresses);
      await coild.call("Gc", undefined, { valid: [next] });
      await coild.check(next);
      await coild.del(next);
    },
  );

  await t.step(
    "an ADD right after the DEL of another container in the same namespace succeeds",
    async () => {
      const pod = await lab.createPod("again");
      await coild.add(pod);
      let before = pod.containerId;
      for (let n = 0; n < 20; n++) {
        const containerId = `${n}`.padStart(64, "0");
        await coild.del(pod, { containerId: before });
        await coild.add(pod, { containerId });
        before = containerId;
      }
      await coild.check(pod, { containerId: before });
      await coild.del(pod, { containerId: before });
      assert.doesNotMatch(
        await coild.process.logs(),
        /A pod interface has no address/,
      );
    },
  );
});
