import assert from "node:assert/strict";
import { forEachConcurrently } from "../../lib/async/mod.ts";
import { eventually } from "../lab/mod.ts";
import { ControllerLab } from "./controller_testing.ts";

Deno.test("coil-controller releases the blocks of nodes that are gone", async (t) => {
  const nodes = ["node1", "node4", "node5", "node6", "node7"];
  await using lab = await ControllerLab.start("ctlgc", nodes);
  await lab.createPool("v4", {
    blockSizeBits: 2,
    subnets: [{ ipv4: "10.4.0.0/16" }],
  });
  const put = (index: number, node: string, finalizers?: readonly string[]) =>
    lab.createBlock({
      pool: "v4",
      index,
      node,
      ipv4: `10.4.0.${4 * index}/30`,
      ...(finalizers === undefined ? {} : { finalizers }),
    });
  const names = async () =>
    (await lab.blocks()).map((block) => block.metadata.name);
  await put(0, "node1");
  await put(1, "node1");
  await put(2, "node2");
  await put(3, "node3");
  await put(4, "node3", []);
  await put(5, "node3", ["example.com/other", "coil.cybozu.com"]);
  await put(6, "");
  // Here already: the controller reads Nodes and blocks by two watches, and finds the blocks of a Node that goes among those that it knows.
  for (let n = 4; n <= 7; n++) await put(n + 3, `node${n}`);
  await lab.delete("addressblocks/v4-8");
  await using _controller = lab.startController();

  await t.step(
    "CT-13: at start, those of missing nodes go, and only they",
    async () => {
      await eventually(
        "the end of the orphans",
        async () => (await names()).length <= 8,
      );
      assert.deepEqual(await names(), [
        ...["v4-0", "v4-1", "v4-5", "v4-6", "v4-7", "v4-8", "v4-9", "v4-10"],
      ]);
    },
  );

  await t.step("a finalizer of others is left to them", async () => {
    await eventually("ours to be taken off", async () => {
      const block = (await lab.blocks())[2];
      assert.deepEqual(block?.metadata.finalizers, ["example.com/other"]);
      assert.notEqual(block?.metadata.deletionTimestamp, undefined);
      return true;
    });
    await lab.merge("addressblocks/v4-5", { metadata: { finalizers: null } });
  });

  await t.step(
    "W22: the deletion of a Node is noticed in seconds, not at the next interval",
    async () => {
      await lab.deleteNode("node4");
      await eventually(
        "the end of the block",
        async () => !(await names()).includes("v4-7"),
      );
      assert.deepEqual(await names(), [
        ...["v4-0", "v4-1", "v4-6", "v4-8", "v4-9", "v4-10"],
      ]);
      await eventually(
        "the Event",
        async () =>
          (await lab.plane.kubectl(
            ...["get", "events", "--namespace=default", "-o=yaml"],
            "--field-selector=reason=BlocksReleased,involvedObject.name=node4",
          )).includes("1 block was released: v4-7"),
      );
    },
  );

  await t.step(
    "a block that is being deleted already is released too",
    async () => {
      await lab.deleteNode("node5");
      await eventually(
        "the end of the block",
        async () => !(await names()).includes("v4-8"),
      );
    },
  );

  await t.step(
    "an outage of the API server frees nothing",
    async () => {
      await lab.restartApiServer();
      // The controller is at work again when it has noticed this.
      await lab.deleteNode("node7");
      await eventually(
        "the end of the block",
        async () => !(await names()).includes("v4-10"),
      );
      assert.deepEqual(await names(), ["v4-0", "v4-1", "v4-6", "v4-9"]);
    },
  );
});

Deno.test("gc-storm (calico#7839): of 250 nodes that are gone at once each block goes, and those of the living stay", async () => {
  const living = "node-250";
  await using lab = await ControllerLab.start("ctlstorm", [living]);
  await lab.createPool("v4", {
    blockSizeBits: 2,
    subnets: [{ ipv4: "10.4.0.0/16" }],
  });
  const indexes = Array.from({ length: 251 }, (_, index) => index);
  await forEachConcurrently(indexes, 8, (index) =>
    lab.createBlock({
      pool: "v4",
      index,
      node: `node-${index}`,
      ipv4: `10.4.${index >> 6}.${4 * (index & 63)}/30`,
    }));
  await using _controller = lab.startController();
  const names = async () =>
    (await lab.blocks()).map(({ metadata }) => metadata.name);
  await eventually(
    "the end of the orphans",
    async () => (await names()).length <= 1,
  );
  assert.deepEqual(await names(), ["v4-250"]);
  await lab.untilGranted("v4-0", { poolName: "v4", nodeName: living });
});

Deno.test("a Node that comes back within the grace time keeps its blocks", async () => {
  await using lab = await ControllerLab.start("ctlgrace", ["back", "gone"]);
  await lab.createPool("v4", { subnets: [{ ipv4: "10.4.0.0/16" }] });
  const graceSeconds = 10;
  await using _controller = lab.startController(
    `--node-grace=${graceSeconds}s`,
  );
  assert.equal(await lab.ask("v4", "back"), "block v4-0");
  assert.equal(await lab.ask("v4", "gone"), "block v4-1");
  const start = performance.now();
  for (const node of ["gone", "back"]) await lab.deleteNode(node);
  await lab.createNode("back");
  const names = async () =>
    (await lab.blocks()).map((block) => block.metadata.name);
  await eventually(
    "the end of the block",
    async () => !(await names()).includes("v4-1"),
  );
  const seconds = (performance.now() - start) / 1000;
  assert.ok(seconds >= graceSeconds, `${seconds} s`);
  assert.deepEqual(await names(), ["v4-0"]);
});

Deno.test("coil-controller looks for orphans at its interval too", async (t) => {
  await using lab = await ControllerLab.start("ctlgc2", ["node1"], {
    audit: "metadata",
  });
  await lab.createPool("v4", {
    blockSizeBits: 2,
    subnets: [{ ipv4: "10.4.0.0/16" }],
  });
  await using _controller = lab.startController("--gc-interval=1s");
  assert.equal(await lab.ask("v4", "node1"), "block v4-0");

  await t.step("every interval lists the nodes", async () => {
    await eventually("three lists", async () => {
      const lists = await lab.plane.auditRequests({
        verb: "list",
        resource: "nodes",
      });
      return lists.length >= 3;
    });
    assert.equal((await lab.blocks()).length, 1);
  });

  await t.step("a block of a node that never was is released", async () => {
    await lab.createBlock({
      pool: "v4",
      index: 1,
      node: "ghost",
      ipv4: "10.4.0.4/30",
    });
    await eventually(
      "the end of the block",
      async () => (await lab.blocks()).length === 1,
    );
  });
});
