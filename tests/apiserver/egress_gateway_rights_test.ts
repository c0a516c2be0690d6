import assert from "node:assert/strict";
import { EgressLab, NAMESPACE, type Right } from "./egress_gateway_lab.ts";

const COIL = "coil.cybozu.com";

/** What the daemon does. That it can is also what the other tests of it show. */
const MAY: readonly Right[] = [
  ["list", "egressclientslices", COIL, NAMESPACE],
  ["watch", "egressclientslices", COIL, NAMESPACE],
  ["get", "pods", "", NAMESPACE],
  ["create", "tokenreviews", "authentication.k8s.io", ""],
  ["get", "addressblocks", COIL, ""],
  ["patch", "egresses/status", COIL, NAMESPACE],
];

/** What anyone who steals its token must not be able to do. */
const MAY_NOT: readonly Right[] = [
  ["list", "pods", "", ""],
  ["watch", "pods", "", ""],
  ["list", "pods", "", NAMESPACE],
  ["get", "pods", "", "team"],
  ["list", "egressclientslices", COIL, "team"],
  ["patch", "egressclientslices", COIL, NAMESPACE],
  ["list", "leases", "coordination.k8s.io", "kube-system"],
  ["create", "pods", "", NAMESPACE],
  ["patch", "pods", "", NAMESPACE],
  ["patch", "pods/status", "", "team"],
  ["delete", "pods", "", "team"],
  ["create", "pods/exec", "", "team"],
  ["get", "secrets", "", NAMESPACE],
  ["list", "nodes", "", ""],
  ["create", "serviceaccounts/token", "", NAMESPACE],
  ["get", "egresses", COIL, NAMESPACE],
  ["list", "addressblocks", COIL, ""],
  ["watch", "addressblocks", COIL, ""],
  ["patch", "addressblocks", COIL, ""],
  ["patch", "egresses", COIL, NAMESPACE],
  ["update", "egresses/status", COIL, NAMESPACE],
  ["patch", "egresses/status", COIL, "team"],
  ["list", "egresses", COIL, ""],
  ["patch", "deployments", "apps", NAMESPACE],
  ["patch", "clusterrolebindings", "rbac.authorization.k8s.io", ""],
];

Deno.test("deploy/base gives gateways the rights they need and no more", async (t) => {
  await using lab = await EgressLab.start("egressrights");
  for (const [rights, allowed] of [[MAY, true], [MAY_NOT, false]] as const) {
    for (const right of rights) {
      const word = allowed ? "may" : "may not";
      await t.step(`${word} ${right.join(" ")}`, async () => {
        assert.equal(await lab.isAllowed(right), allowed);
      });
    }
  }
});

Deno.test("applying deploy/base again leaves the gateways their rights", async () => {
  await using lab = await EgressLab.start("egressrights");
  const base = new URL("../../deploy/base", import.meta.url).pathname;
  await lab.plane.kubectl("apply", "-k", base);
  assert.equal(await lab.isAllowed(MAY[0] as Right), true);
  assert.equal(await lab.isAllowed(["get", "addressblocks", COIL, ""]), true);
});
