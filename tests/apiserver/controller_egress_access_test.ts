import assert from "node:assert/strict";
import { eventually } from "../lab/mod.ts";
import { EgressLab, IMAGE } from "./controller_egress_lab.ts";

const RBAC = "/apis/rbac.authorization.k8s.io/v1";
const COIL_EGRESS = {
  apiVersion: "rbac.authorization.k8s.io/v1",
  kind: "ClusterRoleBinding",
  metadata: { name: "coil-egress" },
  roleRef: {
    apiGroup: "rbac.authorization.k8s.io",
    kind: "ClusterRole",
    name: "coil-egress",
  },
};

async function awaitSubjects(
  lab: EgressLab,
  expected: readonly string[],
  binding = "coil-egress",
): Promise<void> {
  await eventually(
    `subjects ${expected.join()} of ${binding}`,
    async () => (await lab.subjectsOf(binding)).join() === expected.join(),
  );
}

function awaitBinding(
  lab: EgressLab,
  namespace: string,
  expected: boolean,
): Promise<unknown> {
  return eventually(
    `a role binding in ${namespace}: ${expected}`,
    async () =>
      await lab.exists(RBAC, "rolebindings", `${namespace}/coil-egress`) ===
        expected,
  );
}

Deno.test("coil-controller lets the gateways of Egresses check announcements, and nobody else", async (t) => {
  const namespaces = ["corp", "internet", "later", "other"];
  await using lab = await EgressLab.start("ctlaccess", namespaces);
  const start = () => lab.startController(`--egress-image=${IMAGE}`);
  await using stack = new AsyncDisposableStack();
  let controller = stack.use(start());

  await t.step(
    "CT-21: one subject for each namespace with an Egress",
    async () => {
      await lab.create("internet/nat");
      await awaitSubjects(lab, ["internet"]);
      await lab.create("corp/vpn");
      await awaitSubjects(lab, ["corp", "internet"]);
      await lab.create("corp/vpn2");
      await awaitBinding(lab, "corp", true);
      await awaitSubjects(lab, ["corp", "internet"]);
    },
  );

  await t.step(
    "CT-22: psp-coil-egress gets the same once it is there",
    async () => {
      await lab.plane.apply({
        ...COIL_EGRESS,
        metadata: { name: "psp-coil-egress" },
        roleRef: { ...COIL_EGRESS.roleRef, name: "psp-coil-egress" },
      });
      await assert.rejects(lab.subjectsOf("none"), /status 404/);
      // The role must exist for its binding to be changed by who may only bind.
      await lab.plane.apply({
        apiVersion: "rbac.authorization.k8s.io/v1",
        kind: "ClusterRole",
        metadata: { name: "psp-coil-egress" },
        rules: [{
          apiGroups: ["policy"],
          resources: ["podsecuritypolicies"],
          verbs: ["use"],
        }],
      });
      await awaitSubjects(lab, ["corp", "internet"], "psp-coil-egress");
    },
  );

  await t.step("subjects that others add or remove are put right", async () => {
    await lab.plane.apply({
      ...COIL_EGRESS,
      subjects: [{
        kind: "ServiceAccount",
        name: "coil-egress",
        namespace: "other",
      }],
    });
    await awaitSubjects(lab, ["corp", "internet"]);
  });

  await t.step("a second Egress keeps its namespace in", async () => {
    await lab.delete("corp/vpn2");
    // What comes of this comes after what comes of the deletion.
    await lab.create("later/barrier");
    await awaitSubjects(lab, ["corp", "internet", "later"]);
    await lab.delete("later/barrier");
    await awaitSubjects(lab, ["corp", "internet"]);
    await awaitBinding(lab, "later", false);
    assert.ok(await lab.exists(RBAC, "rolebindings", "corp/coil-egress"));
  });

  await t.step(
    "W23: the last Egress of a namespace takes its rights with it",
    async () => {
      await lab.delete("corp/vpn");
      await awaitSubjects(lab, ["internet"]);
      await awaitSubjects(lab, ["internet"], "psp-coil-egress");
      await awaitBinding(lab, "corp", false);
    },
  );

  await t.step(
    "W23: an Egress that waits for its finalizers has no rights any more",
    async () => {
      await lab.create("other/held");
      await awaitSubjects(lab, ["internet", "other"]);
      const path = "/apis/coil.cybozu.com/v2/namespaces/other/egresses/held";
      const patch = { metadata: { finalizers: ["example.com/hold"] } };
      const options = { contentType: "application/merge-patch+json" };
      await lab.plane.request("PATCH", path, patch, options);
      await lab.delete("other/held");
      await awaitSubjects(lab, ["internet"]);
      const free = { metadata: { finalizers: null } };
      await lab.plane.request("PATCH", path, free, options);
    },
  );

  await t.step(
    "W23: what happened while no controller ran is found",
    async () => {
      await controller[Symbol.asyncDispose]();
      await lab.create("corp/vpn");
      await lab.delete("internet/nat");
      controller = stack.use(start());
      await awaitSubjects(lab, ["corp"]);
      await awaitBinding(lab, "corp", true);
      await awaitBinding(lab, "internet", false);
    },
  );

  await t.step("W23: the last of all leaves no subject", async () => {
    await lab.delete("corp/vpn");
    await awaitSubjects(lab, []);
    await awaitSubjects(lab, [], "psp-coil-egress");
  });

  await t.step(
    "without the binding an Egress says so, until it is there",
    async () => {
      const path = `${RBAC}/clusterrolebindings/coil-egress`;
      await lab.plane.request("DELETE", path);
      await lab.create("later/nat");
      const reason = "ClusterRoleBindingMissing";
      const { message } = await lab.awaitCondition(
        "later/nat",
        "Degraded",
        `True ${reason}`,
      );
      assert.match(
        message,
        /^Cannot let gateways check announcements: ClusterRoleBinding "coil-egress" does not exist/,
      );
      await lab.awaitEvents("later/nat", `Warning ${reason}`);
      await lab.plane.apply(COIL_EGRESS);
      await awaitSubjects(lab, ["later"]);
      await lab.awaitCondition("later/nat", "Degraded", "False RollingOut");
      await lab.awaitEvents("later/nat", "Normal Recovered");
    },
  );

  await t.step(
    "service account and role binding that are deleted are made again",
    async () => {
      for (
        const [api, plural] of [
          ["/api/v1", "serviceaccounts"],
          [RBAC, "rolebindings"],
        ] as const
      ) {
        const key = "later/coil-egress";
        const path = `${api}/namespaces/later/${plural}/coil-egress`;
        await lab.plane.request("DELETE", path);
        await eventually(
          `the new ${plural}`,
          () => lab.exists(api, plural, key),
        );
      }
    },
  );

  await t.step("a service account that is there is left as it is", async () => {
    const path = "/api/v1/namespaces/default/serviceaccounts";
    await lab.plane.request("POST", path, {
      apiVersion: "v1",
      kind: "ServiceAccount",
      metadata: { name: "coil-egress", labels: { mine: "true" } },
      imagePullSecrets: [{ name: "registry" }],
    });
    const read = () => lab.plane.request("GET", `${path}/coil-egress`);
    const before = await read();
    await lab.create("default/vpn");
    await lab.awaitDeployment("default/vpn", "exists");
    assert.deepEqual(await read(), before);
  });
});
