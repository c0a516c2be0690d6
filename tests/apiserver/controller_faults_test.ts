import assert from "node:assert/strict";
import { awaitedLater, eventually } from "../lab/mod.ts";
import { COIL_API } from "./crds.ts";
import { ControllerLab } from "./controller_testing.ts";

const POOL = { blockSizeBits: 0, subnets: [{ ipv4: "10.4.0.0/24" }] };

async function holderOf(lab: ControllerLab): Promise<string> {
  const path =
    "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/coil-ipam-leader";
  try {
    const lease = await lab.plane.request("GET", path) as {
      spec: { holderIdentity?: string };
    };
    return lease.spec.holderIdentity ?? "";
  } catch (error) {
    if (error instanceof Error && error.message.includes("status 404")) {
      return "";
    }
    throw error;
  }
}

Deno.test("coil-controller gets over faults of the API server", async (t) => {
  await using lab = await ControllerLab.start("ctlfault", ["node1"]);
  await lab.createPool("v4", POOL);

  await t.step(
    "two controllers: one leads, and the other takes over when it stops",
    async () => {
      const first = lab.startController();
      assert.equal(await lab.ask("v4", "node1"), "block v4-0");
      const leader = await holderOf(lab);
      assert.notEqual(leader, "");
      await using _second = lab.startController();
      await lab.createRequest("while-two", "v4", "node1");
      assert.equal(await lab.answer("while-two"), "block v4-1");
      assert.equal(await holderOf(lab), leader);
      // Requests that come during the hand-over get one block each, no more.
      const names = Array.from({ length: 10 }, (_, i) => `handover-${i}`);
      const created = awaitedLater(Promise.all(
        names.map((name) => lab.createRequest(name, "v4", "node1")),
      ));
      await first[Symbol.asyncDispose]();
      await created;
      const answers = await Promise.all(names.map((name) => lab.answer(name)));
      assert.equal(new Set(answers).size, 10, answers.join());
      assert.equal((await lab.blocks()).length, 12);
      await eventually(
        "a new leader",
        async () => ![leader, ""].includes(await holderOf(lab)),
      );
    },
  );

  await using controller = lab.startController();

  await t.step(
    "watches that are cut are taken up again, with what happened in between",
    async () => {
      await eventually("a leader", async () => await holderOf(lab) !== "");
      assert.match(await lab.ask("v4", "node1"), /^block /);
      await lab.restartApiServer(500);
      assert.match(await lab.ask("v4", "node1"), /^block /);
      await lab.createNode("node2");
      await lab.createBlock({
        pool: "v4",
        index: 100,
        node: "node2",
        ipv4: "10.4.0.100/32",
      });
      await lab.deleteNode("node2");
      await eventually(
        "the end of the block",
        async () => !(await lab.blocks()).some((block) => block.index === 100),
      );
    },
  );

  await t.step(
    "a request that is changed while it is answered is answered all the same",
    async () => {
      const names = Array.from({ length: 20 }, (_, i) => `touched-${i}`);
      const path = (name: string) => `blockrequests/${name}`;
      const before = (await lab.blocks()).length;
      await Promise.all(names.map(async (name) => {
        await lab.createRequest(name, "v4", "node1");
        for (let i = 0; i < 3; i++) {
          await lab.merge(path(name), {
            metadata: { annotations: { touched: `${i}` } },
          });
        }
      }));
      const answers = await Promise.all(names.map((name) => lab.answer(name)));
      assert.equal(new Set(answers).size, 20);
      assert.ok(
        answers.every((answer) => answer.startsWith("block ")),
        answers.join(),
      );
      assert.equal(
        (await lab.blocks()).length,
        before + 20,
        "a block was lost",
      );
    },
  );

  await t.step(
    "a request that is deleted before its answer costs at most a block, and nothing else stops",
    async () => {
      await lab.createRequest("short-lived", "v4", "node1");
      await lab.plane.request(
        "DELETE",
        `${COIL_API}/blockrequests/short-lived`,
      );
      assert.match(await lab.ask("v4", "node1"), /^block /);
    },
  );

  await t.step("the controller never ended", async () => {
    const state = await Promise.race([
      controller.ended.then(() => "ended"),
      Promise.resolve("running"),
    ]);
    assert.equal(state, "running");
  });
});
