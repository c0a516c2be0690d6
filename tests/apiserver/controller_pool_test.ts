import assert from "node:assert/strict";
import type { AddressPool } from "../../lib/api/mod.ts";
import { eventually } from "../lab/mod.ts";
import { ControllerLab } from "./controller_testing.ts";

const SETTLED_MS = 2_000;
const SMALL = { blockSizeBits: 2, subnets: [{ ipv4: "10.4.0.0/29" }] };

function conditionsOf(pool: AddressPool): string[] {
  return (pool.status?.conditions ?? []).map((c) =>
    `${c.type}=${c.status} ${c.reason}`
  );
}

Deno.test("coil-controller looks after address pools", async (t) => {
  await using lab = await ControllerLab.start("ctlpool", ["node1"]);
  await lab.createPool("before", {
    blockSizeBits: 2,
    subnets: [{ ipv4: "10.14.0.0/29" }],
  });
  await using _controller = lab.startController();

  async function untilPool(
    name: string,
    what: string,
    test: (pool: AddressPool) => boolean,
  ): Promise<AddressPool> {
    await eventually(
      `${what} of pool ${name}`,
      async () => test(await lab.pool(name)),
    );
    return await lab.pool(name);
  }
  /** The version of a pool that nobody has changed for a while. */
  async function untilSettled(name: string): Promise<string> {
    let [last, sinceMs] = ["", 0];
    return await eventually(`no change of pool ${name}`, async () => {
      const { resourceVersion = "" } = (await lab.pool(name)).metadata;
      const nowMs = performance.now();
      if (resourceVersion !== last) [last, sinceMs] = [resourceVersion, nowMs];
      return nowMs - sinceMs >= SETTLED_MS && last;
    });
  }
  const free = (count: number) => (pool: AddressPool) =>
    pool.status?.blocks?.free === count;

  await t.step(
    "CT-1: every pool gets its finalizer and status, also one that was there before",
    async () => {
      await lab.createPool("v4", SMALL);
      for (const name of ["before", "v4"]) {
        const pool = await untilPool(
          name,
          "status",
          (p) => free(2)(p) && p.status?.usage !== undefined,
        );
        assert.deepEqual(pool.metadata.finalizers, ["coil.cybozu.com"]);
        assert.deepEqual(pool.status?.blocks, {
          total: 2,
          allocated: 0,
          free: 2,
        });
        assert.deepEqual(pool.status?.ipv4, {
          total: "8",
          allocated: "0",
          free: "8",
          used: "0",
        });
        assert.equal(pool.status?.ipv6, undefined);
        assert.deepEqual(conditionsOf(pool), [
          "Ready=True BlocksAvailable",
          "CapacityLow=False EnoughBlocksFree",
        ]);
      }
    },
  );

  await t.step(
    "the finalizer of others is kept, and ours put back when it is taken away",
    async () => {
      await lab.merge("addresspools/v4", {
        metadata: { finalizers: ["example.com/other"] },
      });
      const pool = await untilPool(
        "v4",
        "finalizers",
        (p) => p.metadata.finalizers?.length === 2,
      );
      assert.deepEqual(pool.metadata.finalizers, [
        "example.com/other",
        "coil.cybozu.com",
      ]);
      await lab.merge("addresspools/v4", {
        metadata: { finalizers: ["coil.cybozu.com"] },
      });
    },
  );

  await t.step(
    "the status follows the blocks, and Events tell of exhaustion",
    async () => {
      assert.equal(await lab.ask("v4", "node1"), "block v4-0");
      await untilPool("v4", "one free block", free(1));
      assert.equal(await lab.ask("v4", "node1"), "block v4-1");
      const pool = await untilPool("v4", "no free block", free(0));
      assert.deepEqual(conditionsOf(pool), [
        "Ready=False Exhausted",
        "CapacityLow=True FewBlocksFree",
      ]);
      assert.deepEqual(pool.status?.ipv4, {
        total: "8",
        allocated: "8",
        free: "0",
        used: "0",
      });
      await eventually("the Event", async () => {
        const events = await lab.events("v4");
        return events.some((e) =>
          e.reason === "Exhausted" && e.type === "Warning"
        );
      });
    },
  );

  await t.step("a subnet that is added gives room at once", async () => {
    await lab.merge("addresspools/v4", {
      spec: { subnets: [{ ipv4: "10.4.0.0/29" }, { ipv4: "10.8.0.0/24" }] },
    });
    const pool = await untilPool("v4", "more blocks", free(64));
    assert.deepEqual(conditionsOf(pool)[0], "Ready=True BlocksAvailable");
    assert.equal(pool.status?.observedGeneration, pool.metadata.generation);
    assert.equal(await lab.ask("v4", "node1"), "block v4-2");
    assert.equal((await lab.blocks("v4"))[2]?.ipv4, "10.8.0.0/30");
  });

  await t.step("the status is not written without a change", async () => {
    await untilPool("v4", "status", free(63));
    const version = await untilSettled("v4");
    await lab.merge("addressblocks/v4-2", {
      metadata: { annotations: { touched: "yes" } },
    });
    assert.equal(await untilSettled("v4"), version);
  });

  await t.step(
    "CT-5: a pool that is deleted stays as long as it has blocks",
    async () => {
      await lab.delete("addresspools/v4");
      const pool = await untilPool(
        "v4",
        "condition",
        (p) => conditionsOf(p)[0] === "Ready=False Deleting",
      );
      assert.notEqual(pool.metadata.deletionTimestamp, undefined);
      await lab.returnBlock("v4-1");
      await lab.returnBlock("v4-2");
      await untilPool(
        "v4",
        "one block left",
        (p) => p.status?.blocks?.allocated === 1,
      );
      await lab.returnBlock("v4-0");
      await eventually(
        "the end of the pool",
        async () =>
          !(await lab.pools()).some(({ metadata }) => metadata.name === "v4"),
      );
    },
  );

  await t.step(
    "CT-4: a pool without blocks goes at once, and its name can be used again",
    async () => {
      await lab.delete("addresspools/before");
      await eventually(
        "the end of the pool",
        async () => (await lab.pools()).length === 0,
      );
      await lab.createPool("before", {
        blockSizeBits: 0,
        subnets: [{ ipv4: "10.9.0.0/30" }],
      });
      await untilPool("before", "status", free(4));
      assert.equal(await lab.ask("before", "node1"), "block before-0");
      assert.equal((await lab.blocks("before"))[0]?.ipv4, "10.9.0.0/32");
    },
  );

  await t.step("counts of a huge pool are exact", async () => {
    await lab.createPool("huge", {
      blockSizeBits: 5,
      subnets: [{ ipv6: "fd05::/64" }],
    });
    const pool = await untilPool(
      "huge",
      "status",
      (p) => p.status?.ipv6 !== undefined,
    );
    assert.equal(pool.status?.blocks?.total, 2 ** 31);
    assert.equal(pool.status?.ipv6?.total, String(2n ** 36n));
    assert.equal(await lab.ask("huge", "node1"), "block huge-0");
  });
});
