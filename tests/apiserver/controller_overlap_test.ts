import assert from "node:assert/strict";
import { FAMILIES, Prefix } from "../../lib/inet/mod.ts";
import { eventually } from "../lab/mod.ts";
import { ControllerLab } from "./controller_testing.ts";

Deno.test("W28: pools that overlap give no address to two nodes", async (t) => {
  await using lab = await ControllerLab.start("ctlover", ["node1", "node2"]);
  await lab.createPool("wide", {
    blockSizeBits: 3,
    subnets: [{ ipv4: "10.4.0.0/25", ipv6: "fd04::/121" }],
  });
  await lab.createPool("apart", { subnets: [{ ipv4: "10.5.0.0/24" }] });
  const conditionOf = async (pool: string) =>
    (await lab.pool(pool)).status?.conditions?.find((c) =>
      c.type === "Overlapping"
    );
  const isOverlapping = (pool: string, status: string | undefined) =>
    eventually(
      `Overlapping=${status} of ${pool}`,
      async () => (await conditionOf(pool))?.status === status,
    );
  const noneOverlap = async () => {
    const blocks = await lab.blocks();
    const prefixes = blocks.flatMap((block) =>
      FAMILIES.flatMap((f) => block[f] === undefined ? [] : [block[f]])
    ).map((text) => Prefix.parse(text));
    for (const [i, a] of prefixes.entries()) {
      for (const b of prefixes.slice(i + 1)) {
        assert.ok(!a.overlaps(b), `${a} and ${b}`);
      }
    }
    return blocks.length;
  };

  {
    await using _controller = lab.startController();
    await t.step(
      "a pool says with which other it overlaps, and where",
      async () => {
        assert.equal(await lab.ask("wide", "node1"), "block wide-0");
        await lab.createPool("narrow", {
          blockSizeBits: 2,
          subnets: [{ ipv4: "10.4.0.0/25" }],
        });
        for (const pool of ["wide", "narrow"]) {
          await isOverlapping(pool, "True");
        }
        const { message } = await conditionOf("wide") ?? {};
        assert.match(
          message ?? "",
          /^10\.4\.0\.0\/25 is in AddressPool "narrow" too/,
        );
        assert.match(
          (await conditionOf("narrow"))?.message ?? "",
          /^10\.4\.0\.0\/25 is in AddressPool "wide" too/,
        );
        assert.equal(await conditionOf("apart"), undefined);
        await eventually(
          "the blocks of wide to be counted",
          async () => (await lab.pool("narrow")).status?.blocks?.free === 30,
        );
        for (const pool of ["wide", "narrow"]) {
          await eventually(
            "the Event",
            async () =>
              (await lab.events(pool)).some((e) =>
                e.reason === "Overlapping" && e.type === "Warning"
              ),
          );
        }
      },
    );

    await t.step("both allocate at once, and nothing is doubled", async () => {
      const names = Array.from({ length: 10 }, (_, i) => `over-${i}`);
      await Promise.all(
        names.map((name, i) =>
          i % 2 === 0
            ? lab.createRequest(name, "wide", "node1")
            : lab.createRequest(name, "narrow", "node2")
        ),
      );
      const answers = await Promise.all(names.map((name) => lab.answer(name)));
      assert.ok(answers.every((a) => a.startsWith("block ")), answers.join());
      assert.equal(await noneOverlap(), 11);
    });
  }

  await using _controller = lab.startController();
  await t.step("nor after a restart, up to the last block", async () => {
    for (const pool of ["wide", "narrow"]) {
      let answer = "";
      for (let i = 0; i < 40 && !answer.startsWith("failed"); i++) {
        answer = await lab.ask(pool, "node2");
      }
      assert.match(answer, /^failed out of blocks/);
    }
    const sizes = { wide: 8, narrow: 4 };
    const wide = (await lab.blocks("wide")).length * sizes.wide;
    const narrow = (await lab.blocks("narrow")).length * sizes.narrow;
    assert.equal(wide + narrow, 128, "every address, and none twice");
    await noneOverlap();
    await eventually(
      "exhaustion",
      async () =>
        (await lab.pool("narrow")).status?.conditions?.[0]?.reason ===
          "Exhausted",
    );
  });

  await t.step("a block in no place of its pool is kept clear of", async () => {
    await lab.createBlock({
      pool: "gone",
      index: 7,
      node: "node1",
      ipv4: "10.5.0.0/28",
    });
    await isOverlapping("apart", "True");
    assert.match((await conditionOf("apart"))?.message ?? "", /"gone-7"/);
    assert.equal(await lab.ask("apart", "node1"), "block apart-1");
    await lab.returnBlock("gone-7");
    await isOverlapping("apart", undefined);
    assert.equal(await lab.ask("apart", "node1"), "block apart-0");
  });

  await t.step(
    "the condition goes with the other pool, whose blocks were in the way until then",
    async () => {
      await lab.delete("addresspools/narrow");
      for (const block of await lab.blocks("narrow")) {
        await lab.returnBlock(block.metadata.name ?? "");
      }
      await isOverlapping("wide", undefined);
      const free = (await lab.pool("wide")).status?.blocks?.free ?? 0;
      assert.ok(free > 0);
      assert.match(await lab.ask("wide", "node2"), /^block wide-/);
      await eventually(
        "the Event",
        async () =>
          (await lab.events("wide")).some((e) => e.reason === "OverlapEnded"),
      );
    },
  );
});
