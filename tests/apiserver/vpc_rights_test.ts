// Rights in the cluster of a node with addresses of the VPC, against the audit
// log. Those in the account: the cloud of the lab goes by the IAM policy.
import assert from "node:assert/strict";
import type { VpcNode } from "../../lib/api/mod.ts";
import { eventually } from "../lab/mod.ts";
import { usedRights } from "../lab/rights_log.ts";
import { compareRights, rightsOf, type Role } from "../runner/rights.ts";
import { collectionsOf } from "./audited.ts";
import { COIL_API } from "./crds.ts";
import { BARE, VpcLab } from "./coild_vpc_lab.ts";
import { kustomize, parseManifests } from "./deploy_render.ts";

const ACCOUNT = "kube-system:coild";
const ARGS = [...BARE, "--enable-egress=false", "--cooldown=0s"];

/** The roles that overlay vpc gives coild, without egress. */
const ROLES = ["ClusterRole/coild", "ClusterRole/coild-vpc"];

Deno.test("coild's rights with addresses of the VPC are what it uses, no more and no less", async () => {
  await using vpc = await VpcLab.start("vpcrights", {}, {
    audit: "metadata",
  });
  const { plane } = vpc.lab;
  const others = ["coild-ipam", "coild-egress"];
  await plane.kubectl("delete", "clusterrolebinding", ...others);
  await using coild = await vpc.start(ARGS);
  const pod = await vpc.lab.createPod("pod");
  await vpc.add(coild, pod);
  assert.equal((await vpc.plugin(coild, "DEL", pod)).code, 0);
  const pool = { "coil.cybozu.com/pool": "other" };
  await vpc.lab.createNamespace("pooled", pool);
  const refused = await vpc.lab.createPod("pod", { namespace: "pooled" });
  // The first time makes an Event, the second counts it up.
  await eventually("an Event that came twice", async () => {
    const { output } = await vpc.plugin(coild, "ADD", refused);
    assert.match(output, /this node's pods have addresses of the VPC/);
    const path = "/api/v1/namespaces/pooled/events";
    const { items } = await plane.request("GET", path) as {
      readonly items: readonly { readonly count: number }[];
    };
    return items.some(({ count }) => count >= 2);
  });
  await eventually("the node's VPCNode", async () => {
    const path = `${COIL_API}/vpcnodes/${vpc.lab.node().name}`;
    const { status } = await plane.request("GET", path) as VpcNode;
    return status !== undefined;
  });
  const { code } = await coild.stop();
  assert.equal(code, 0);
  const user = `system:serviceaccount:${ACCOUNT}`;
  // With thousands of nodes each of them counts.
  const node = vpc.lab.node().name;
  assert.deepEqual(await collectionsOf(plane, { user }), [
    "watch /api/v1/namespaces",
    `watch /api/v1/nodes metadata.name=${node}`,
    `watch /api/v1/pods spec.nodeName=${node}`,
  ]);
  const used = usedRights(await plane.auditRequests({ user }));
  assert.deepEqual(used.filter(({ isGranted }) => !isGranted), []);
  const rendered = parseManifests(await kustomize("overlays/vpc"));
  const granted = new Set(ROLES.flatMap((name) => {
    const role = rendered.get(name) as unknown as Role | undefined;
    assert.ok(role, name);
    return rightsOf(role);
  }));
  assert.deepEqual(compareRights(ACCOUNT, { used, granted }).spare, []);
});
