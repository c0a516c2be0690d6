// kubectl delete addresspool default: it cannot be undone, and would stop all
// new pods. The commands are an admin's, with all rights.
import assert from "node:assert/strict";
import { eventually } from "../lab/mod.ts";
import { ControllerLab } from "../apiserver/controller_testing.ts";
import { PolicyLab } from "../apiserver/policy_lab.ts";

Deno.test("a pool that nodes have blocks of is not deleted by mistake", async (t) => {
  await using policies = await PolicyLab.start("pooldelete");
  const { plane } = policies;
  const lab = ControllerLab.on(plane);
  const remove = (...args: string[]) =>
    plane.kubectl("delete", "addresspool", "--wait=false", ...args);
  const allocated = (pool: string, count: number) =>
    eventually(
      `${count} blocks of ${pool}`,
      async () => (await lab.pool(pool)).status?.blocks?.allocated === count,
    );
  await lab.createPool("used", { subnets: [{ ipv4: "10.5.0.0/24" }] });

  await t.step("nor before anybody has counted its blocks", async () => {
    await eventually("the policy to be in force", async () => {
      const answer = await remove("--dry-run=server", "used").catch(String);
      return answer.includes("coil-pool-deletion");
    });
    await assert.rejects(
      remove("used"),
      /coil-controller has not counted its blocks yet/,
    );
  });

  await using _controller = lab.startController();
  await lab.createPool("empty", { subnets: [{ ipv4: "10.6.0.0/24" }] });
  await allocated("empty", 0);
  for (const node of ["node1", "node1", "node2"]) await lab.ask("used", node);
  await allocated("used", 3);

  await t.step("the refusal names the nodes, and says what to do", async () => {
    await assert.rejects(
      remove("used"),
      /"used" is not deleted: 3 of its blocks are in use, on node1 \(2\), node2 \(1\)\. .*coil ipam show addresses --pool used.*kubectl annotate addresspool used coil\.cybozu\.com\/delete=used/,
    );
    await assert.rejects(remove("--all"), /"used" is not deleted/);
    const all = "/apis/coil.cybozu.com/v2/addresspools";
    await assert.rejects(
      plane.request("DELETE", all),
      /is not deleted: 3 of its bl/,
    );
    assert.equal(
      (await lab.pool("used")).metadata.deletionTimestamp,
      undefined,
    );
    assert.equal(await lab.ask("used", "node2"), "block used-3");
    await allocated("used", 4);
  });

  await t.step("an empty pool was deleted", async () => {
    await eventually("the end of the pool", async () => {
      return !(await lab.pools()).some((p) => p.metadata.name === "empty");
    });
  });

  await t.step("another pool's name does not do", async () => {
    const annotate = ["annotate", "--overwrite", "addresspool", "used"];
    await plane.kubectl(...annotate, "coil.cybozu.com/delete=empty");
    await assert.rejects(remove("used"), /"used" is not deleted/);
    await plane.kubectl(...annotate, "coil.cybozu.com/delete=used");
  });

  await t.step("its own does, and an Event names the nodes", async () => {
    await remove("used");
    const event = await eventually("the Event", async () => {
      const events = await lab.events("used");
      return events.find(({ reason }) => reason === "Deleting");
    });
    assert.equal(event.type, "Warning");
    assert.match(event.message, /on node1 \(2\), node2 \(2\); pods get/);
    await remove("used"); // once more, which changes nothing
  });

  await t.step("it goes when its last block has gone", async () => {
    for (const { metadata } of await lab.blocks("used")) {
      await lab.returnBlock(metadata.name ?? "");
    }
    await eventually(
      "the end of the pool",
      async () => (await lab.pools()).length === 0,
    );
  });
});
