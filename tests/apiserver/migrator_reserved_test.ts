// What the controller makes of blocks that were taken over from Coil v1.
import assert from "node:assert/strict";
import { eventually } from "../lab/mod.ts";
import { COIL_API } from "./crds.ts";
import { ControllerLab } from "./controller_testing.ts";

async function reserve(
  lab: ControllerLab,
  name: string,
  index: number,
  ipv4: string,
): Promise<void> {
  await lab.plane.request("POST", `${COIL_API}/addressblocks`, {
    apiVersion: "coil.cybozu.com/v2",
    kind: "AddressBlock",
    metadata: {
      name,
      labels: {
        "coil.cybozu.com/pool": "default",
        "coil.cybozu.com/node": "node1",
        "coil.cybozu.com/reserved": "true",
      },
    },
    index,
    ipv4,
  });
}

Deno.test("migrate: the controller grants no address of a reserved block of any size, also after a restart", async () => {
  await using lab = await ControllerLab.start("migrate-reserved", ["node1"]);
  await lab.createPool("default", {
    blockSizeBits: 3,
    subnets: [{ ipv4: "10.64.0.0/26" }],
  });
  await reserve(lab, "default-0-v1", 0, "10.64.0.0/29");
  await reserve(lab, "default-1-v1", 1, "10.64.0.8/29");
  await reserve(lab, "default-2-v1-10.64.0.16-28", 2, "10.64.0.16/28");
  await reserve(lab, "default-5-v1-10.64.0.44-30", 5, "10.64.0.44/30");
  await reserve(lab, "default-5-v1-10.64.0.41-32", 5, "10.64.0.41/32");
  const free = ["block default-4", "block default-6", "block default-7"];
  {
    await using _controller = lab.startController();
    assert.equal(await lab.ask("default", "node1"), free[0]);
    await eventually("the pool's status", async () => {
      const { status } = await lab.pool("default");
      return (status?.blocks?.allocated ?? 0) >= 5;
    });
  }
  await using _controller = lab.startController();
  assert.equal(await lab.ask("default", "node1"), free[1]);
  assert.equal(await lab.ask("default", "node1"), free[2]);
  assert.match(await lab.ask("default", "node1"), /failed out of blocks/);
  // A block that is released is granted again.
  await lab.delete("addressblocks/default-0-v1");
  await eventually("the released block", async () => {
    return await lab.ask("default", "node1") === "block default-0";
  });
});
