// What people see of a node whose pods have addresses of the VPC.
import assert from "node:assert/strict";
import { conditionOf, type VpcNode } from "../../lib/api/mod.ts";
import { eventually } from "../lab/mod.ts";
import { COIL_API, columnsOf } from "./crds.ts";
import { VpcLab } from "./coild_vpc_lab.ts";

/** As few addresses as pods need. */
const BARE = ["--vpc-mode=address", "--warm-ips=1", "--min-ips=1"];

/** The API server sees a change within 10 s, and that of counts alone within a minute. */
const NEWS = { timeoutMs: 30_000 };

async function vpcNodeOf({ lab }: VpcLab): Promise<VpcNode> {
  const path = `${COIL_API}/vpcnodes/${lab.node().name}`;
  return await lab.plane.request("GET", path) as VpcNode;
}

Deno.test("coild --addresses=vpc shows in a VPCNode what the node has", async (t) => {
  await using vpc = await VpcLab.start("coildvpcshow");
  const { lab } = vpc;
  const { name } = lab.node();
  await using coild = await vpc.start(BARE);

  await t.step("owned by its Node, with its ENI", async () => {
    await vpc.add(coild, await lab.createPod("pod0"));
    await eventually("the ENI", async () => {
      const { status } = await vpcNodeOf(vpc);
      return status?.addresses?.used === 1 && status.addresses.free === 1;
    }, NEWS);
    const { metadata, status } = await vpcNodeOf(vpc);
    const [owner] = metadata.ownerReferences ?? [];
    assert.deepEqual([owner?.kind, owner?.name], ["Node", name]);
    const { enis: [eni] = [], ...rest } = status ?? {};
    assert.equal(eni?.device, 0);
    assert.match(eni.blocks.join(), /^10\.0\.1\.\d+\/32,10\.0\.1\.\d+\/32$/);
    assert.equal(rest.mode, "address");
    assert.deepEqual(
      rest.conditions?.map(({ type, status }) => `${type}=${status}`),
      [
        "Ready=True",
        "SubnetExhausted=False",
        "Throttled=False",
        "MissingPermissions=False",
      ],
    );
  });

  await t.step("in kubectl's columns", async () => {
    assert.deepEqual(await columnsOf(lab.plane, "vnode"), [
      ...["NAME", "TYPE", "ENIS", "USED", "COOLING", "FREE", "READY"],
      ...["REASON", "INSTANCE", "MODE", "MAX ENIS", "CAPACITY", "AGE"],
    ]);
    const line = await lab.plane.kubectl("get", "vpcnodes", "--no-headers");
    assert.match(
      line,
      new RegExp(
        `^${name} +t3\\.small +1 +1 +0 +1 +True +AddressesAvailable +\\S+\n$`,
      ),
    );
  });

  await t.step("again when it was deleted", async () => {
    const { metadata: { uid } } = await vpcNodeOf(vpc);
    await lab.plane.kubectl("delete", "vpcnode", name);
    const names = Array.from({ length: 3 }, (_, n) => `more${n}`);
    for (const name of names) await vpc.add(coild, await lab.createPod(name));
    await eventually("another object", async () => {
      const { metadata, status } = await vpcNodeOf(vpc);
      return metadata.uid !== uid && status?.eniCount === 2;
    }, NEWS);
  });
});
