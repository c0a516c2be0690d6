import assert from "node:assert/strict";
import { SpiderLab } from "./testing.ts";

const KEY = "spidercoordinators//default";
const SERVICES = ["10.96.0.0/12"];

function kubeadm(lab: SpiderLab, podSubnet: string): void {
  lab.api.put("configmaps", {
    metadata: { namespace: "kube-system", name: "kubeadm-config" },
    data: { ClusterConfiguration: `networking: { podSubnet: ${podSubnet} }` },
  });
}

/** Waits for these CIDRs of pods in the status. */
async function known(lab: SpiderLab, pods: readonly string[]): Promise<void> {
  await lab.until(() =>
    assert.deepEqual(lab.resource()?.status, {
      phase: "Synced",
      reason: "",
      overlayPodCIDR: pods,
      serviceCIDR: SERVICES,
    })
  );
}

Deno.test("the status of SpiderCoordinator follows the cluster's networks, and is written when they change alone", async () => {
  await using lab = new SpiderLab();
  kubeadm(lab, "10.244.0.0/16");
  lab.want({});
  lab.start();
  await known(lab, ["10.244.0.0/16"]);
  kubeadm(lab, "10.245.0.0/16");
  await known(lab, ["10.245.0.0/16"]);
  lab.want({ podCIDRType: "none" }, { generation: 2 });
  await known(lab, []);
  lab.want({}, { generation: 3 });
  await known(lab, ["10.245.0.0/16"]);
  await lab.quiet();
  assert.deepEqual(lab.api.writes, Array(4).fill(`PUT ${KEY}/status`));
  assert.deepEqual(lab.events, [
    "PodCIDRTypeChanged of default: Pod CIDR type changed from auto to none",
    "PodCIDRTypeChanged of default: Pod CIDR type changed from none to auto",
  ]);
  assert.deepEqual([...lab.uids.values()], ["uid-of-first"]);
});

Deno.test("a SpiderCoordinator of another name gets no status", async () => {
  await using lab = new SpiderLab();
  lab.want({}, { name: "other" });
  lab.want({});
  lab.start();
  await known(lab, []);
  await lab.quiet();
  assert.equal(lab.resource("other")?.status, undefined);
});

Deno.test("networks that are not found have one Event, keep their last value, and are not those of a new SpiderCoordinator", async () => {
  await using lab = new SpiderLab();
  kubeadm(lab, "10.244.0.0/16");
  lab.want({ podCIDRType: "cluster" });
  lab.start();
  await known(lab, ["10.244.0.0/16"]);
  lab.api.remove("configmaps/kube-system/kubeadm-config");
  const problem =
    "cannot find the pod CIDRs: neither ConfigMap kube-system/kubeadm-config nor a pod of kube-controller-manager has it";
  const kept = `the last known values stay in force: ${problem}`;
  await lab.until(() => assert.equal(lab.resource()?.status?.reason, kept));
  const { phase, overlayPodCIDR } = lab.resource()?.status ?? {};
  assert.deepEqual([phase, overlayPodCIDR], ["Synced", ["10.244.0.0/16"]]);
  lab.api.put("servicecidrs", {
    metadata: { name: "more" },
    spec: { cidrs: ["10.97.0.0/16"] },
  });
  await lab.until(() =>
    assert.equal(lab.resource()?.status?.serviceCIDR?.length, 2)
  );
  await lab.quiet();
  assert.deepEqual(lab.events, [`CIDRsUnknown of default: ${kept}`]);
  lab.api.remove(KEY);
  lab.want({ podCIDRType: "cluster" });
  await lab.until(() =>
    assert.deepEqual(lab.resource()?.status, {
      phase: "NotReady",
      reason: problem,
      overlayPodCIDR: [],
      serviceCIDR: [...SERVICES, "10.97.0.0/16"],
    })
  );
});

/** Undoes what is written until that stops. Returns how often it was written. */
async function quarrel(lab: SpiderLab): Promise<number> {
  const before = lab.api.writes.length;
  const foreign = { overlayPodCIDR: ["10.99.0.0/16"] };
  const reported = lab.events.length;
  do {
    lab.overwrite(foreign);
    await lab.until(() => {
      const is = `${lab.resource()?.status?.overlayPodCIDR}`;
      assert.ok(is !== "10.99.0.0/16" || lab.events.length > reported);
    });
  } while (lab.events.length === reported);
  const writes = lab.api.writes.length - before;
  const overlayPodCIDR = ["10.98.0.0/16"];
  lab.overwrite({ overlayPodCIDR });
  await lab.quiet();
  assert.deepEqual(lab.resource()?.status?.overlayPodCIDR, overlayPodCIDR);
  assert.equal(lab.api.writes.length - before, writes, "left alone");
  assert.equal(lab.events.length, reported + 1, "one Event");
  return writes;
}

Deno.test("the status is left to a controller that keeps writing over it, until the spec changes or the object is another", async () => {
  await using lab = new SpiderLab();
  lab.want({});
  lab.start();
  await known(lab, []);
  assert.equal(await quarrel(lab), 2, "an edit is undone, and a second one");
  assert.match(
    lab.events[0] ?? "",
    /^StatusOfAnotherController of default: Another controller/,
  );
  lab.want({ hostRuleTable: 501 }, { generation: 2 });
  await known(lab, []);
  assert.equal(await quarrel(lab), 2, "counted from zero again");
  lab.api.remove(KEY);
  lab.want({}, { generation: 2, uid: "uid-of-second" });
  await known(lab, []);
});
