// Addresses of nodes come with the blocks, so coil-router needs no watch of
// Nodes, whose heartbeats would be most of what it gets in a large cluster.
import assert from "node:assert/strict";
import type { AddressBlock } from "../../lib/api/mod.ts";
import { eventually, startCoilPlane } from "../lab/mod.ts";
import { untilInMemory } from "./api_memory.ts";
import { collectionsOf } from "./audited.ts";
import { ControllerLab } from "./controller_testing.ts";
import { COIL_API } from "./crds.ts";

const MAIN = new URL("./router_main.ts", import.meta.url).pathname;
/** All that it lists or watches. */
const BLOCKS = `watch ${COIL_API}/addressblocks`;
const ANNOTATION = "coil.cybozu.com/node-addresses";

Deno.test("blocks say the addresses of their nodes, and coil-router watches no Nodes", async (t) => {
  await using plane = await startCoilPlane({
    name: "routeraddr",
    audit: "metadata",
  });
  await using nodes = new AsyncDisposableStack();
  const node = nodes.use(await plane.addNode(1));
  const node2 = nodes.use(await plane.addNode(2));
  const [ipv4 = "", ipv6 = ""] = node2.addresses;
  const lab = ControllerLab.on(plane);
  await untilInMemory(plane, "/api/v1/nodes");
  await using _controller = lab.startController();
  await lab.createPool("default", {
    blockSizeBits: 0,
    subnets: [{ ipv4: "10.2.0.0/24", ipv6: "fd02::/120" }],
  });
  const addressesOn = async (name: string) => {
    const path = `${COIL_API}/addressblocks/${name}`;
    const block = await plane.request("GET", path) as AddressBlock;
    return block.metadata.annotations?.[ANNOTATION];
  };
  const routes = async () => {
    const texts = await Promise.all(
      ["-4", "-6"].map((family) =>
        node.run("ip", family, "route", "show", "proto", "31")
      ),
    );
    return texts.join("").trim().split("\n").filter((line) => line !== "")
      .map((line) => line.replace(/ dev .*$/, "")).sort();
  };
  const assertRoutes = async (...wanted: string[]) => {
    await eventually("the routes", async () => {
      assert.deepEqual(await routes(), wanted.toSorted());
      return true;
    });
  };
  const assertReads = async (...wanted: string[]) => {
    const user = "system:serviceaccount:kube-system:coil-router";
    assert.deepEqual(await collectionsOf(plane, { user }), wanted);
  };

  await t.step("from their allocation on", async () => {
    assert.equal(await lab.ask("default", "node2"), "block default-0");
    assert.equal(await addressesOn("default-0"), `${ipv4},${ipv6}`);
  });

  await using _router = await plane.startProcess({
    node,
    serviceAccount: { namespace: "kube-system", name: "coil-router" },
    command: Deno.execPath(),
    args: ["run", "--no-check", "-A", MAIN, "--update-interval=1h"],
    env: { COIL_NODE_NAME: node.name },
  });

  await t.step("which is all that coil-router needs", async () => {
    await assertRoutes(`10.2.0.0 via ${ipv4}`, `fd02:: via ${ipv6}`);
    await assertReads(BLOCKS);
  });

  await t.step("a node's new address takes effect at once", async () => {
    const other = ipv4.replace(/\d+$/, (last) => String(Number(last) + 100));
    await plane.request("PATCH", "/api/v1/nodes/node2/status", {
      status: {
        addresses: [other, ipv6].map((address) => ({
          type: "InternalIP",
          address,
        })),
      },
    }, { contentType: "application/merge-patch+json" });
    await eventually("the annotation", async () => {
      return await addressesOn("default-0") === `${other},${ipv6}`;
    });
    await assertRoutes(`10.2.0.0 via ${other}`, `fd02:: via ${ipv6}`);
    await assertReads(BLOCKS);
  });

  await t.step("nor those of a node that has no address yet", async () => {
    const late = ipv4.replace(/\d+$/, (last) => String(Number(last) + 101));
    await plane.request("POST", "/api/v1/nodes", {
      metadata: { name: "late" },
    });
    assert.equal(await lab.ask("default", "late"), "block default-1");
    // At once, or as soon as the controller knows of the Node.
    await eventually(
      "the annotation",
      async () => await addressesOn("default-1") === "",
    );
    await plane.request("PATCH", "/api/v1/nodes/late/status", {
      status: { addresses: [{ type: "InternalIP", address: late }] },
    }, { contentType: "application/merge-patch+json" });
    await eventually("its route", async () => {
      return (await routes()).includes(`10.2.0.1 via ${late}`);
    });
    await assertReads(BLOCKS);
  });

  await t.step("a block of another controller's gets them later", async () => {
    await lab.createBlock({
      pool: "default",
      index: 9,
      node: "node2",
      ipv4: "10.2.0.9/32",
    });
    await eventually("its annotation", async () => {
      return await addressesOn("default-9") !== undefined;
    });
  });

  await t.step("what others write there is put right", async () => {
    const before = await addressesOn("default-9");
    await plane.request("PATCH", `${COIL_API}/addressblocks/default-9`, {
      metadata: { annotations: { [ANNOTATION]: "192.0.2.1" } },
    }, { contentType: "application/merge-patch+json" });
    await eventually("the right address", async () => {
      return await addressesOn("default-9") === before;
    });
  });
});
