// An admin gives a block to another node by its label, while pods have its
// addresses. That node's coild cannot know of these pods: without the policy
// coil-block-labels it assigns their addresses a second time.
import assert from "node:assert/strict";
import { eventually } from "../lab/mod.ts";
import { type Coild, CoildLab } from "./coild_lab.ts";

const POLICIES = new URL("../../deploy/policies", import.meta.url).pathname;
const ARGS = ["--low-water=0", "--cooldown=0s"];
const BLOCK = "default-0";
const KEPT = /"default-0" keeps its label coil\.cybozu\.com\//;

async function addPods(
  lab: CoildLab,
  coild: Coild,
  names: readonly string[],
): Promise<string[]> {
  const addresses: string[] = [];
  for (const name of names) {
    const pod = await lab.createPod(name, { node: coild.node });
    addresses.push(...await coild.addresses(pod));
  }
  return addresses;
}

Deno.test("a block stays with its node and its pool when an admin changes its labels", async (t) => {
  await using lab = await CoildLab.start({ name: "relabelled", nodes: 2 });
  const { plane } = lab;
  await plane.kubectl("apply", "-k", POLICIES);
  await lab.createPool("default", [{ ipv4: "10.127.0.0/28" }], 2);
  await using _controller = await lab.startController();
  const label = (block: string, ...args: readonly string[]) =>
    plane.kubectl("label", "addressblock", block, "--overwrite", ...args);
  await using coild1 = await lab.startCoild(lab.node(1), ARGS);
  const used = await addPods(lab, coild1, ["a", "b"]);
  assert.deepEqual(await lab.blocks(), [BLOCK]);

  await t.step("the refusal says why, and where its pods are", async () => {
    await eventually("the policy to be in force", async () => {
      // Before that it would be done.
      const remove = label(BLOCK, "coil.cybozu.com/node-", "--dry-run=server");
      return KEPT.test(await remove.catch(String));
    });
    await assert.rejects(
      label(BLOCK, "coil.cybozu.com/node=node2"),
      /keeps its label coil\.cybozu\.com\/node=node1: another node would assign its addresses a second time\..*coil ipam show addresses --node=node1/,
    );
    await assert.rejects(label(BLOCK, "coil.cybozu.com/pool=other"), KEPT);
  });

  await t.step("the other node's pods get other addresses", async () => {
    await using coild2 = await lab.startCoild(lab.node(2), ARGS);
    const others = await addPods(lab, coild2, ["c", "d"]);
    assert.equal(new Set([...used, ...others]).size, 4, `${used}; ${others}`);
  });

  await t.step(
    "other labels can be changed, and a missing one set",
    async () => {
      await label(BLOCK, "example.com/rack=7");
      await plane.apply({
        apiVersion: "coil.cybozu.com/v2",
        kind: "AddressBlock",
        metadata: { name: "by-hand" },
        index: 9,
        ipv4: "10.126.0.0/30",
      });
      await label("by-hand", "coil.cybozu.com/node=node2");
    },
  );
});
