import assert from "node:assert/strict";
import {
  assertSoon,
  type AuditedRequest,
  eventually,
  writing,
} from "../lab/mod.ts";
import { untilInMemory } from "./api_memory.ts";
import { ControllerLab } from "./controller_testing.ts";
import { COIL_API } from "./crds.ts";

const DUAL = {
  blockSizeBits: 1,
  subnets: [
    { ipv4: "10.2.0.0/29", ipv6: "fd02::200/125" },
    { ipv4: "10.3.0.0/30", ipv6: "fd02::300/126" },
  ],
};

Deno.test("coil-controller answers block requests", async (t) => {
  await using lab = await ControllerLab.start("ctlreq", ["node1", "node2"], {
    audit: "metadata",
  });
  await lab.createPool("default", DUAL);
  await lab.createPool("v4", {
    blockSizeBits: 2,
    subnets: [{ ipv4: "10.4.0.0/29" }],
  });

  await t.step(
    "CT-6: at start it answers what is pending and leaves alone what has an answer",
    async () => {
      await lab.createRequest("pending", "v4", "node1");
      await lab.createRequest("answered", "v4", "node1");
      const done = { type: "Complete", status: "True", reason: "by hand" };
      await lab.merge("blockrequests/answered/status", {
        status: { conditions: [done] },
      });
      const before = (await lab.request("answered")).metadata.resourceVersion;
      // A controller that sees it without its answer takes a block for it.
      await untilInMemory(lab.plane, `${COIL_API}/blockrequests`);
      await using _controller = lab.startController();
      assert.equal(await lab.answer("pending"), "block v4-0");
      await eventually(
        "the status of pool v4",
        async () => (await lab.pool("v4")).status?.blocks?.allocated === 1,
      );
      assert.equal(
        (await lab.request("answered")).metadata.resourceVersion,
        before,
      );
      assert.equal((await lab.blocks()).length, 1);
    },
  );

  await using _controller = lab.startController();

  await t.step(
    "PM-2: the block is the lowest free one, labelled, finalized and owned by the pool",
    async () => {
      assert.equal(
        await lab.ask("default", "node1", "req-default-node1"),
        "block default-0",
      );
      const [block] = await lab.blocks("default");
      const request = await lab.request("req-default-node1");
      const pool = await lab.pool("default");
      assert.deepEqual([block?.index, block?.ipv4, block?.ipv6], [
        0,
        "10.2.0.0/31",
        "fd02::200/127",
      ]);
      assert.deepEqual(block?.metadata.finalizers, ["coil.cybozu.com"]);
      assert.deepEqual(block?.metadata.labels, {
        "coil.cybozu.com/pool": "default",
        "coil.cybozu.com/node": "node1",
        "coil.cybozu.com/request": request.metadata.uid,
      });
      assert.deepEqual(block?.metadata.ownerReferences, [{
        apiVersion: "coil.cybozu.com/v2",
        kind: "AddressPool",
        name: "default",
        uid: pool.metadata.uid,
        controller: true,
        blockOwnerDeletion: true,
      }]);
      assert.deepEqual(
        request.status?.conditions?.map((c) => [c.type, c.status, c.reason]),
        [["Complete", "True", "allocated"]],
      );
    },
  );

  await t.step(
    "CT-7: a wiped status is written again for the same block",
    async () => {
      await lab.merge("blockrequests/req-default-node1/status", {
        status: null,
      });
      assert.equal(await lab.answer("req-default-node1"), "block default-0");
      assert.equal((await lab.blocks("default")).length, 1);
    },
  );

  await t.step(
    "PM-3: requests at once get a block each, and then the pool is out of blocks",
    async () => {
      const names = Array.from({ length: 6 }, (_, i) => `burst-${i}`);
      await Promise.all(
        names.map((name) => lab.createRequest(name, "default", "node2")),
      );
      const answers = await Promise.all(names.map((name) => lab.answer(name)));
      assert.deepEqual(answers.toSorted(), [
        ...[1, 2, 3, 4, 5].map((i) => `block default-${i}`),
        'failed out of blocks: AddressPool "default" has no free block',
      ]);
      const blocks = await lab.blocks("default");
      assert.deepEqual(
        blocks.map((b) => [b.index, b.ipv4, b.ipv6]).at(-1),
        [5, "10.3.0.2/31", "fd02::302/127"],
      );
    },
  );

  await t.step(
    "PM-4: a block that was returned is allocated again",
    async () => {
      const free = async () => (await lab.pool("default")).status?.blocks?.free;
      await eventually("the end of the room", async () => await free() === 0);
      await lab.returnBlock("default-4");
      await eventually("room again", async () => await free() === 1);
      assert.equal(await lab.ask("default", "node2"), "block default-4");
      const block = (await lab.blocks("default"))[4];
      assert.deepEqual([block?.ipv4, block?.ipv6], [
        "10.3.0.0/31",
        "fd02::300/127",
      ]);
    },
  );

  await t.step("PM-6: an IPv4 pool gives blocks without IPv6", async () => {
    assert.equal(await lab.ask("v4", "node1"), "block v4-1");
    assert.match(await lab.ask("v4", "node1"), /^failed out of blocks/);
    const blocks = await lab.blocks("v4");
    assert.deepEqual(blocks.map((b) => [b.ipv4, b.ipv6]), [
      ["10.4.0.0/30", undefined],
      ["10.4.0.4/30", undefined],
    ]);
  });

  await t.step(
    "W50: a pool that does not exist is named at once, and works once it exists",
    async () => {
      const since = new Date();
      const step = writing(lab.plane);
      const what = "until it was named";
      await assertSoon(async () => {
        assert.equal(
          await lab.ask("typo", "node1"),
          'failed pool not found: AddressPool "typo" does not exist',
        );
      }, { what, limitMs: 2_000, step });
      // It looks for it once, and does not wait for it to come.
      const looks = await eventually("its look", async () => {
        const filter = { verb: "get", resource: "addresspools", since };
        const found = (await lab.plane.auditRequests(filter))
          .filter(({ name }) => name === "typo");
        return found.length > 0 && found;
      });
      assert.deepEqual(looks.map(({ code }) => code), [404]);
      await lab.createPool("typo", { subnets: [{ ipv4: "10.5.0.0/24" }] });
      assert.equal(await lab.ask("typo", "node1"), "block typo-0");
    },
  );

  await t.step("a node that does not exist gets no block", async () => {
    assert.equal(
      await lab.ask("typo", "ghost"),
      'failed node not found: Node "ghost" does not exist',
    );
    assert.equal((await lab.blocks("typo")).length, 1);
  });

  await t.step(
    "a pool that is paused gives no block until it is not",
    async () => {
      const readyFor = (reason: string) =>
        eventually(`Ready for ${reason}`, async () => {
          const { conditions = [] } = (await lab.pool("typo")).status ?? {};
          const ready = conditions.find(({ type }) => type === "Ready");
          assert.equal(ready?.reason, reason);
          return true;
        });
      await lab.merge("addresspools/typo", { spec: { paused: true } });
      await readyFor("Paused");
      assert.equal(
        await lab.ask("typo", "node1"),
        'failed pool paused: AddressPool "typo" is paused',
      );
      await lab.merge("addresspools/typo", { spec: { paused: null } });
      await readyFor("BlocksAvailable");
      assert.equal(await lab.ask("typo", "node1"), "block typo-1");
    },
  );

  await t.step("a pool that is being deleted gives no block", async () => {
    await eventually(
      "the finalizer",
      async () =>
        ((await lab.pool("typo")).metadata.finalizers ?? []).length > 0,
    );
    await lab.delete("addresspools/typo");
    // Of another watch than requests come by.
    await eventually("the controller to know", async () => {
      const events = await lab.events("typo");
      return events.some(({ reason }) => reason === "Deleting");
    });
    assert.equal(
      await lab.ask("typo", "node1"),
      'failed out of blocks: AddressPool "typo" is being deleted',
    );
  });

  await t.step(
    "a name that is taken is passed over, however it came about",
    async () => {
      // coil#152: the name of the next block exists, but under no label that a list of the pool's blocks finds.
      await lab.createPool("wedged", {
        blockSizeBits: 2,
        subnets: [{ ipv4: "10.6.0.0/28" }],
      });
      await lab.createBlock({
        pool: "wedged",
        index: 0,
        node: "node1",
        ipv4: "10.6.0.0/30",
      });
      await lab.merge("addressblocks/wedged-0", {
        metadata: { labels: { "coil.cybozu.com/pool": null } },
      });
      assert.equal(await lab.ask("wedged", "node1"), "block wedged-1");
      assert.equal(await lab.ask("wedged", "node2"), "block wedged-2");
    },
  );

  await t.step(
    "a node whose name fits no label is told so at once",
    async () => {
      const long = `${"n".repeat(60)}.example.com`;
      await lab.createNode(long);
      await lab.createPool("labels", { subnets: [{ ipv4: "10.8.0.0/24" }] });
      assert.match(
        await lab.ask("labels", long),
        /^failed block refused: .*63/,
      );
      assert.equal(await lab.ask("labels", "node1"), "block labels-0");
    },
  );

  await t.step("W27: many requests are served at once", async () => {
    await lab.createPool("many", {
      blockSizeBits: 0,
      subnets: [{ ipv4: "10.7.0.0/24" }],
    });
    const since = new Date();
    const names = Array.from({ length: 200 }, (_, i) => `many-${i}`);
    await Promise.all(
      names.map((name) => lab.createRequest(name, "many", "node1")),
    );
    const answers = await Promise.all(names.map((name) => lab.answer(name)));
    assert.equal(new Set(answers).size, 200, "a block was given twice");
    assert.ok(
      answers.every((answer) => answer.startsWith("block many-")),
      answers.join(),
    );
    assert.equal((await lab.blocks("many")).length, 200);
    // A request is in the log a moment after its answer.
    const steps = await eventually("400 writes in the audit log", async () => {
      const found = (await lab.plane.auditRequests({ since }))
        .filter(({ resource, subresource, verb }) =>
          verb === "create" && resource === "addressblocks" ||
          subresource === "status" && resource === "blockrequests"
        );
      return found.length >= 400 && found;
    });
    const inOrder = steps.toSorted((a, b) =>
      a.received.getTime() - b.received.getTime()
    );
    assert.ok(mostOpen(inOrder) > 2, `${mostOpen(inOrder)} at once`);
  });
});

/** How many requests had a block, or were about to get one, and no answer yet: each worker has one. */
function mostOpen(steps: readonly AuditedRequest[]): number {
  let open = 0;
  return Math.max(...steps.map(({ resource }) => {
    open += resource === "addressblocks" ? 1 : -1;
    return open;
  }));
}
