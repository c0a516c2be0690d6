import assert from "node:assert/strict";
import { type ControlPlane, eventually, startCoilPlane } from "../lab/mod.ts";
import { isAllowed } from "./access.ts";

const DEPLOY = new URL("../../deploy/", import.meta.url).pathname;

/** `verb,verb resource[/subresource] [name]` in a group; "" is the core group. */
interface Rights {
  readonly may: readonly string[];
  readonly mayNot: readonly string[];
}

const READ = "get,list,watch";

/** What each daemon does, and what anyone who steals its token must not be able to do. */
const RIGHTS: Readonly<Record<string, Rights>> = {
  "coild": {
    may: [
      `${READ} nodes`,
      `${READ} pods`,
      `${READ} namespaces`,
      `${READ} addresspools`,
      // Watched by earlier versions, while nodes are updated.
      `${READ},patch,delete addressblocks`,
      `${READ},create,delete blockrequests`,
      `${READ} egresses`,
      `${READ} services`,
      "list,watch endpointslices",
      "create,patch events",
    ],
    mayNot: [
      "create,update,patch,delete egresses",
      "update,patch egresses/status",
      "create,update,patch,delete services",
      "create,update,patch,delete endpointslices",
      "update,patch,delete nodes",
      "create,update,patch,delete pods",
      "patch pods/status",
      "update,patch namespaces",
      "create,update,patch,delete addresspools",
      "create,update,deletecollection addressblocks",
      "update,patch,deletecollection blockrequests",
      "update,patch blockrequests/status",
      "get,list secrets",
      "get,update leases",
      "create serviceaccounts/token",
      `${READ},create,update,patch,delete vpcnodes`,
      "update,patch vpcnodes/status",
    ],
  },
  "coil-controller": {
    may: [
      `${READ} nodes`,
      "list,watch namespaces",
      "list servicecidrs",
      `${READ},patch addresspools`,
      "update addresspools/status",
      "update addresspools/finalizers",
      `${READ},create,patch,delete addressblocks`,
      `${READ} blockrequests`,
      "update blockrequests/status",
      "list vpcnodes",
      "create,patch events",
      "create leases",
      "get,update leases coil-ipam-leader",
      "get,update leases coil-egress-leader",
      "list,watch egresses",
      "patch egresses/status",
      "update egresses/finalizers",
      `${READ},create,patch deployments`,
      `${READ},create,patch services`,
      `${READ},create,patch,delete poddisruptionbudgets`,
      `${READ} pods`,
      "list,watch,create,patch serviceaccounts coil-egress",
      `${READ},create,patch,delete rolebindings coil-egress`,
      "list,watch,patch clusterrolebindings coil-egress",
      "list,watch,patch clusterrolebindings psp-coil-egress",
      "bind clusterroles coil-egress",
      "bind clusterroles coil-egress-gateway",
    ],
    mayNot: [
      "update,delete nodes",
      "create,delete addresspools",
      "create,delete blockrequests",
      "create,update,patch,delete vpcnodes",
      "get,update leases kube-controller-manager",
      "delete leases coil-ipam-leader",
      "get,list secrets",
      "create,update,patch,delete pods",
      "create,update,patch,delete egresses",
      "delete,deletecollection deployments",
      "delete,deletecollection services",
      "list,create serviceaccounts",
      "patch,delete serviceaccounts default",
      "create serviceaccounts/token coil-egress",
      "list,create rolebindings",
      "patch rolebindings other",
      "list,create clusterrolebindings",
      "create,delete clusterrolebindings coil-egress",
      "patch clusterrolebindings cluster-admin",
      "bind,escalate clusterroles cluster-admin",
      "escalate,patch,update clusterroles coil-egress",
    ],
  },
  "coil-router": {
    may: ["list,watch nodes", "list,watch addressblocks"],
    mayNot: [
      "create,update,patch,delete addressblocks",
      "update,patch nodes",
      "list pods",
      "list addresspools",
      "get,list secrets",
    ],
  },
};

const GROUPS: Readonly<Record<string, string>> = {
  addresspools: "coil.cybozu.com",
  addressblocks: "coil.cybozu.com",
  blockrequests: "coil.cybozu.com",
  vpcnodes: "coil.cybozu.com",
  egresses: "coil.cybozu.com",
  endpointslices: "discovery.k8s.io",
  leases: "coordination.k8s.io",
  servicecidrs: "networking.k8s.io",
  deployments: "apps",
  poddisruptionbudgets: "policy",
  rolebindings: "rbac.authorization.k8s.io",
  clusterrolebindings: "rbac.authorization.k8s.io",
  clusterroles: "rbac.authorization.k8s.io",
};

async function mayDo(
  plane: ControlPlane,
  account: string,
  [verb, what, name]: readonly [string, string, string | undefined],
): Promise<boolean> {
  const [resource = "", subresource] = what.split("/");
  return await isAllowed(plane, {
    user: `system:serviceaccount:kube-system:${account}`,
    groups: ["system:serviceaccounts", "system:authenticated"],
    group: GROUPS[resource] ?? "",
    namespace: "kube-system",
    verb,
    resource,
    subresource,
    name,
  });
}

/** The rights of a line. */
function rightsIn(
  line: string,
): (readonly [string, string, string | undefined])[] {
  const [verbs = "", what = "", name] = line.split(" ");
  return verbs.split(",").map((verb) => [verb, what, name] as const);
}

/** With deploy/vpc besides. */
const RIGHTS_OF_VPC: typeof RIGHTS = {
  "coild": {
    may: ["get,create vpcnodes", "patch vpcnodes/status"],
    mayNot: [
      "list,watch,update,patch,delete,deletecollection vpcnodes",
      "update vpcnodes/status",
      "update,patch,delete nodes",
    ],
  },
};

async function checkRights(
  t: Deno.TestContext,
  plane: ControlPlane,
  rights: typeof RIGHTS,
): Promise<void> {
  for (const [account, { may, mayNot }] of Object.entries(rights)) {
    await eventually(`the rights of ${account} to be in force`, async () => {
      for (const right of may.flatMap(rightsIn)) {
        if (!await mayDo(plane, account, right)) return false;
      }
      return true;
    }).catch(() => {}); // which are missing is said below
    for (const [lines, allowed] of [[may, true], [mayNot, false]] as const) {
      const word = allowed ? "may" : "may not";
      for (const line of lines) {
        await t.step(`${account} ${word} ${line}`, async () => {
          for (const right of rightsIn(line)) {
            const answer = await mayDo(plane, account, right);
            assert.equal(answer, allowed, right.join(" "));
          }
        });
      }
    }
  }
}

Deno.test("deploy/base gives each daemon the rights it needs and no more, and deploy/vpc those of VPCNodes", async (t) => {
  await using plane = await startCoilPlane({ name: "rbac" });
  await checkRights(t, plane, RIGHTS);
  await plane.kubectl("apply", "-k", `${DEPLOY}vpc`);
  await checkRights(t, plane, RIGHTS_OF_VPC);
});
