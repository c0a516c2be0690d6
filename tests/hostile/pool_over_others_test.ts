// Pools with addresses that others have: another pool, nodes, Services, pods
// of another network plugin. Nothing is refused; anyone who looks is told.
import assert from "node:assert/strict";
import { conditionOf } from "../../lib/api/mod.ts";
import { coil } from "../../roles/cli/testing.ts";
import { eventually } from "../lab/mod.ts";
import { ControllerLab } from "../apiserver/controller_testing.ts";

const OVER: Readonly<Record<string, readonly [string, RegExp, string]>> = {
  node: [
    "10.7.0.0/24",
    /^10\.7\.0\.5\/32 is the address of Node "node1"/,
    "Warning ClusterAddresses",
  ],
  service: [
    "10.96.128.0/20",
    /^10\.96\.0\.0\/16 is the ServiceCIDR/,
    "Warning ClusterAddresses",
  ],
  pods: [
    "10.8.0.0/24",
    /^10\.8\.0\.64\/26 is the podCIDR of Node "node1"\. This is harmless if Coil is the only network plugin/,
    "Normal InPodCIDR",
  ],
};

async function clusterConditionOf(lab: ControllerLab, pool: string) {
  const { status } = await lab.pool(pool);
  return conditionOf(status?.conditions, "ClusterAddresses");
}

Deno.test("a pool over addresses of the cluster says so, and works on", async (t) => {
  await using lab = await ControllerLab.start("overcluster", ["node2"]);
  const { plane } = lab;
  await plane.request("POST", "/api/v1/nodes", {
    metadata: { name: "node1" },
    spec: { podCIDR: "10.8.0.64/26", podCIDRs: ["10.8.0.64/26"] },
  });
  await plane.request(
    "PATCH",
    "/api/v1/nodes/node1/status",
    { status: { addresses: [{ type: "InternalIP", address: "10.7.0.5" }] } },
    { contentType: "application/merge-patch+json" },
  );
  for (const [name, [ipv4]] of Object.entries(OVER)) {
    await lab.createPool(name, { subnets: [{ ipv4 }] });
  }
  await lab.createPool("apart", { subnets: [{ ipv4: "10.9.0.0/24" }] });
  await using _controller = lab.startController("--gc-interval=1s");

  for (const [name, [, expected, told]] of Object.entries(OVER)) {
    await t.step(`over addresses: ${name}`, async () => {
      const condition = await eventually(
        `the condition of ${name}`,
        () => clusterConditionOf(lab, name),
      );
      assert.equal(condition.status, "True");
      assert.match(condition.message, expected);
      const { status } = await lab.pool(name);
      assert.equal(conditionOf(status?.conditions, "Ready")?.status, "True");
      assert.equal(await lab.ask(name, "node2"), `block ${name}-0`);
      const event = await eventually("the Event", async () => {
        const events = await lab.events(name);
        return events.find(({ message }) => expected.test(message));
      });
      assert.equal(`${event.type} ${event.reason}`, told);
    });
  }
  await t.step(
    "a pool of its own addresses has no such condition",
    async () => {
      assert.equal(await lab.ask("apart", "node2"), "block apart-0");
      assert.equal(await clusterConditionOf(lab, "apart"), undefined);
    },
  );
  await t.step("it ends with the Node", async () => {
    await lab.deleteNode("node1");
    await eventually(
      "the end of the condition",
      async () => await clusterConditionOf(lab, "node") === undefined,
    );
    assert.ok(await clusterConditionOf(lab, "service") !== undefined);
  });
});

Deno.test("a pool whose addresses another pool has given out is not called free", async (t) => {
  await using lab = await ControllerLab.start("overpool", ["node1"]);
  const subnets = [{ ipv4: "10.4.0.0/26" }];
  await lab.createPool("first", { subnets });
  await lab.createPool("second", { subnets });
  await using _controller = lab.startController();
  for (const block of ["first-0", "first-1"]) {
    assert.equal(await lab.ask("first", "node1"), `block ${block}`);
  }

  await t.step("the refusal says who has them", async () => {
    assert.match(
      await lab.ask("second", "node1"),
      /^failed out of blocks: AddressPool "second" has no free block: 10\.4\.0\.0\/26 is in AddressPool "first" too/,
    );
  });
  await t.step("coil ipam show counts none as free", async () => {
    const args = ["ipam", "show", "pools", "--pool=second", "-o", "json"];
    const { code, out } = await coil(
      [...args, `--kubeconfig=${lab.plane.kubeconfig}`],
    );
    assert.equal(code, 0);
    const [row] = JSON.parse(out).pools;
    assert.deepEqual(row.blocks, {
      total: 2,
      allocated: 0,
      free: 0,
      unavailable: 2,
    });
    assert.equal(row.ipv4.free, "0");
    assert.equal(row.state, "Exhausted");
    assert.match(row.message, /is in AddressPool "first" too/);
  });
});
