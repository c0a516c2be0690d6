// What the daemons leave in a node's kernel goes by the commands of docs/uninstall.md.
import assert from "node:assert/strict";
import { buildExecutable } from "../../deploy/executable/mod.ts";
import { testedCommands } from "../arch/pages.ts";
import { CoilCluster } from "../lab/coil.ts";
import { eventually, type LabNode } from "../lab/mod.ts";
import { COIL_API } from "./crds.ts";

const FAMILIES = ["-4", "-6"];

/** Routes of coild and of coil-router in each family, and tables of nftables. */
async function leftOn(node: LabNode): Promise<string[]> {
  const show = async (...selector: string[]) => {
    const texts = FAMILIES.map((family) =>
      node.run("ip", family, "route", "show", "table", "all", ...selector)
    );
    return (await Promise.all(texts))
      .map((text, i) => text === "" ? "" : `${selector} ${FAMILIES[i]}`);
  };
  const all = [
    ...await show("proto", "30"),
    ...await show("proto", "31"),
    ...(await node.run("nft", "list", "tables")).split("\n"),
  ];
  return all.filter((line) => line !== "");
}

Deno.test("what coild and coil-router leave goes by the commands to uninstall them", async () => {
  await using cluster = await CoilCluster.start({
    name: "uninstall",
    executable: await buildExecutable(),
    nodes: 2,
  });
  const [node, other] = cluster.nodes;
  assert.ok(node !== undefined && other !== undefined);
  await cluster.plane.request("POST", `${COIL_API}/addresspools`, {
    apiVersion: "coil.cybozu.com/v2",
    kind: "AddressPool",
    metadata: { name: "default" },
    spec: {
      blockSizeBits: 5,
      subnets: [{ ipv4: "10.128.0.0/24", ipv6: "fd02:128::/120" }],
    },
  });
  await cluster.startController();
  for (const each of [node, other]) {
    await cluster.startCoild(each);
    const pod = { namespace: "default", name: each.name };
    await cluster.add(each, await cluster.createSandbox(each, pod));
  }
  const router = await cluster.startRouter(node);
  const routes = [
    ...["proto,30 -4", "proto,30 -6", "proto,31 -4", "proto,31 -6"],
    "table inet coil-node",
  ];
  await eventually("all routes", async () => {
    const left = await leftOn(node);
    return routes.every((each) => left.includes(each));
  });
  await router.stop();
  await cluster.daemonOf(node)?.stop();
  assert.deepEqual(await leftOn(node), routes);
  const [block = []] = await testedCommands(
    "docs/uninstall.md",
    import.meta.url,
  );
  assert.equal(block.length, 5);
  for (const command of block) await node.run("sh", "-c", command);
  // Of the pod that still runs the node keeps the routes of table 116.
  assert.deepEqual(await leftOn(node), ["proto,30 -4", "proto,30 -6"]);
});
