// Runs in a machine whose kernel was started without IPv6.
import assert from "node:assert/strict";
import {
  CoordinatorLab,
  fetched,
  type NicSpec,
  ours,
  reaches,
  SERVICES,
  serving,
  stateOf,
} from "./coordinator_lab.ts";
import { netnsTest } from "./testing.ts";

const ETH0: NicSpec = { name: "eth0", network: 6, number: 100 };
const NET1: NicSpec = { name: "net1", network: 7, number: 100 };
/** What is configured for all of a cluster need not be of this kernel's families. */
const CONFIG = {
  serviceCIDR: Object.values(SERVICES),
  hijackCIDR: ["169.254.20.10", "fd00::20:10"],
  podRPFilter: 1,
  podMACPrefix: "0a:1b",
  detectIPConflict: true,
  detectGateway: true,
  // On a busy machine the kernel's answers take long.
  detectOptions: { timeout: "2s" },
};

netnsTest("the kernel has no IPv6", async () => {
  await assert.rejects(Deno.stat("/proc/net/if_inet6"), Deno.errors.NotFound);
});

for (const overlay of [undefined, 5]) {
  const mode = overlay === undefined ? "underlay" : "overlay";
  netnsTest(`coordinator: a pod's life, ${mode}`, async () => {
    await using lab = await CoordinatorLab.start(["ipv4"]);
    const nics = overlay === undefined ? [ETH0, NET1] : [NET1];
    const pod = await lab.joined(nics, {
      config: CONFIG,
      ...overlay === undefined ? {} : { overlay },
    });
    const state = async () => [
      ...await stateOf(pod.netns),
      ...await stateOf(lab.host),
    ];
    const before = await state();
    for (const { name: ifname, network } of nics) {
      await lab.ok("ADD", pod, { ifname, config: CONFIG });
      await lab.ok("CHECK", pod, { ifname, config: CONFIG });
      assert.ok(await reaches(lab.host, `10.${network}.0.100`), ifname);
      const source = network === 6 ? "10.7.0.1" : "10.6.0.1";
      const address = `10.${network}.0.100`;
      assert.ok(await reaches(lab.switch, address, { source }), ifname);
    }
    assert.deepEqual(await state(), before);
    await serving(lab, async () => {
      const first = overlay === undefined ? "10.6.0.100" : "10.244.1.5";
      assert.equal(await fetched(pod.netns, "ipv4"), first);
    });
    const valid = [{ containerID: pod.containerId, ifname: "eth0" }];
    const gc = { "cni.dev/valid-attachments": valid };
    await lab.ok("GC", pod, { prevResult: null, config: gc });
    for (const { name: ifname } of nics.toReversed()) {
      await lab.ok("DEL", pod, { ifname });
    }
    assert.deepEqual(ours(await state()), []);
    assert.deepEqual(
      lab.warnings.filter((text) => !text.includes("annotations")),
      [],
    );
  });
}
