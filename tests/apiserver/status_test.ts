import assert from "node:assert/strict";
import { coil, type Output } from "../../roles/cli/testing.ts";
import { testedSessions } from "../arch/pages.ts";
import { ControlPlane } from "../lab/mod.ts";
import { untilAllowed } from "./access.ts";
import { addPart, addParts, renewLease, SYSTEM } from "./coil_parts.ts";
import { installCrds } from "./crds.ts";
import { patchStatus } from "./patch_status.ts";

function status(
  kubeconfig: string,
  ...args: readonly string[]
): Promise<Output> {
  return coil(["status", ...args, `--kubeconfig=${kubeconfig}`]);
}

/** The parts on two nodes, and a pool. */
async function populate(plane: ControlPlane): Promise<void> {
  await addParts(plane, ["node1", "node2"]);
  await plane.apply({
    apiVersion: "coil.cybozu.com/v2",
    kind: "AddressPool",
    metadata: { name: "default" },
    spec: { subnets: [{ ipv4: "10.2.0.0/24" }] },
  });
  await setPool(plane, { type: "Ready", status: "True" });
}

async function setPool(
  plane: ControlPlane,
  condition: { readonly type: string; readonly status: string },
): Promise<void> {
  const path = "/apis/coil.cybozu.com/v2/addresspools/default";
  await patchStatus(plane, path, {
    conditions: [{
      ...condition,
      reason: condition.type === "Ready" ? "BlocksAvailable" : "FewBlocksFree",
      message: "2 of 8 blocks are free",
      lastTransitionTime: "2026-01-01T00:00:00Z",
    }],
  });
}

/** Ages differ from run to run. */
function ageless(text: string): string {
  return text.replaceAll(/\b\d+s\b/g, "0s");
}

Deno.test("coil status", async (t) => {
  await using plane = await ControlPlane.start({ name: "status" });
  const { kubeconfig: config } = plane;

  await t.step("before anything is installed", async () => {
    const { code, out } = await status(config);
    assert.equal(code, 3);
    assert.match(
      out,
      /addresspools\.coil\.cybozu\.com: .* not installed\n {6}kubectl apply -f crds\/\n/,
    );
    assert.match(out, /^Not looked at: addresspools \(not served\)$/m);
    assert.match(out, /^ {2}coild: no pod, Deployment or DaemonSet/m);
  });

  await installCrds(plane);
  await populate(plane);

  await t.step("--wait: all is well at once", async () => {
    await renewLease(plane, new Date());
    const { code, out, err } = await status(config, "--wait=1m");
    assert.deepEqual([code, err], [0, ""], out);
    assert.match(out, /\nNo problems found\n$/);
    const { parts } = JSON.parse((await status(config, "-o=json")).out);
    assert.deepEqual(parts[1], {
      kind: "DaemonSet",
      namespace: SYSTEM,
      name: "coild",
      ready: 2,
      wanted: 2,
      versions: { "0.1.0": 2 },
    });
  });

  await t.step("a viewer is told what it may not read", async () => {
    const role = ["create", "clusterrole", "part-viewer", "--verb=list"];
    await plane.kubectl(
      ...role,
      "--resource=pods,daemonsets.apps,deployments.apps",
    );
    for (
      const name of [
        "part-viewer",
        "coilv2-addresspool-viewer-role",
        "coilv2-blockrequest-viewer-role",
      ]
    ) {
      const bind = ["create", "clusterrolebinding", name, "--user=viewer"];
      await plane.kubectl(...bind, `--clusterrole=${name}`);
    }
    await untilAllowed(plane, {
      user: "viewer",
      verb: "list",
      group: "coil.cybozu.com",
      resource: "blockrequests",
    });
    // This role is new, and roles are watched apart from bindings.
    await untilAllowed(plane, {
      user: "viewer",
      verb: "list",
      resource: "pods",
    });
    const viewer = await plane.kubeconfigFor({ user: "viewer" });
    const { code, out } = await status(viewer);
    assert.equal(code, 1);
    assert.match(out, /^kube-system\/coild +2\/2 +0\.1\.0$/m);
    for (const what of ["leases", "egresses", "nodes"]) {
      assert.match(
        out,
        new RegExp(`^Not looked at: ${what} \\(forbidden\\)$`, "m"),
      );
    }
    assert.match(
      out,
      /^No problems found in deployments, daemonsets, pods, addresspools, blockrequests\n$/m,
    );
    const stranger = await plane.kubeconfigFor({ user: "stranger" });
    const refused = await status(stranger);
    assert.equal(refused.code, 1);
    assert.match(refused.out, /^Not looked at: [^\n]+ \(forbidden\)\n/);
    assert.match(refused.out, /^Not looked at: pods \(forbidden\)$/m);
    assert.match(refused.out, /\nNothing was looked at\n$/);
  });

  const daemonSet = `/apis/apps/v1/namespaces/${SYSTEM}/daemonsets/coild`;
  await patchStatus(plane, daemonSet, { numberReady: 1 });
  const coild = { name: "coild-node2", component: "coild", node: "node2" };
  await addPart(plane, { ...coild, waiting: "CrashLoopBackOff" });
  await setPool(plane, { type: "CapacityLow", status: "True" });
  const sessions = await testedSessions("docs/roles/coil.md", import.meta.url);
  assert.equal(sessions.length, 1);
  for (const { command, output } of sessions) {
    await t.step(`the document shows what it prints: ${command}`, async () => {
      await renewLease(plane, new Date());
      const { code, out, err } = await status(config);
      assert.equal(command, "coil status");
      assert.equal(ageless(out + err), ageless(output));
      assert.equal(code, 3);
    });
  }

  await t.step("--wait ends when the problems do", async () => {
    await setPool(plane, { type: "Ready", status: "True" });
    const waiting = status(config, "--wait=5m");
    const mended = addPart(plane, coild).then(async () => {
      await patchStatus(plane, daemonSet, { numberReady: 2 });
      await renewLease(plane, new Date());
    });
    const { code, out, err } = await waiting;
    await mended;
    assert.equal(code, 0, out);
    // What is left of them when it looks.
    assert.match(
      err,
      /^(Waiting: (Pod kube-system\/coild-node2|DaemonSet kube-system\/coild|Lease kube-system\/coil-ipam-leader): .*\n)*$/,
    );
  });

  await t.step("--wait ends with its time", async () => {
    await renewLease(plane, new Date(Date.now() - 600_000));
    const { code, out, err } = await status(config, "--wait=3s");
    assert.equal(code, 3);
    assert.match(
      err,
      /^Waiting: Lease kube-system\/coil-ipam-leader: no .*\n$/,
    );
    assert.match(
      out,
      /no coil-controller leads: "coil-controller-node1" last renewed it 10m ago/,
    );
  });

  await t.step("an API server that is away is named", async () => {
    const dead = await Deno.makeTempFile();
    const text = await Deno.readTextFile(config);
    await Deno.writeTextFile(
      dead,
      text.replaceAll(/https:\/\/[^"\s]+/g, "https://127.0.0.1:9"),
    );
    const { code, out, err } = await status(dead, "--wait=3s");
    assert.deepEqual([code, out], [1, ""]);
    assert.match(err, /^Waiting: the API server does not answer\nError: /);
    await Deno.remove(dead);
  });
});
