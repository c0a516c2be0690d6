import assert from "node:assert/strict";
import { type Egress, egressLabels } from "../../lib/api/mod.ts";
import type {
  KubeObject,
  V1ClusterRoleBinding,
  V1Deployment,
  V1RoleBinding,
  V1Service,
} from "../../lib/kube/mod.ts";
import { bindingNamed, EgressLab, egressOf } from "./testing.ts";

const EGRESS = "egresses/internet/nat";
const DEPLOYMENT = "deployments/internet/nat";
const SERVICE = "services/internet/nat";
const BUDGET = "poddisruptionbudgets/internet/nat";
const ROLE_BINDING = "rolebindings/internet/coil-egress";
const CLUSTER_ROLE_BINDING = "clusterrolebindings//coil-egress";

function readyReason({ api }: EgressLab): string | undefined {
  const conditions = api.get<Egress>(EGRESS)?.status?.conditions ?? [];
  return conditions.find(({ type }) => type === "Ready")?.reason;
}

function readersOf({ api }: EgressLab): (string | undefined)[] {
  const binding = api.get<V1ClusterRoleBinding>(CLUSTER_ROLE_BINDING);
  return (binding?.subjects ?? []).map(({ namespace }) => namespace);
}

Deno.test("a leader looks at the memory after each Egress, and after its clients", async () => {
  const together = new Set<number>();
  await using lab = new EgressLab({
    heap: {
      note: (objects = 1) => void together.add(objects),
    },
  });
  lab.api.put("egresses", egressOf({}));
  for (let n = 0; n < 3; n++) {
    lab.api.put("pods", {
      metadata: {
        namespace: "team",
        name: `pod-${n}`,
        uid: `u${n}`,
        annotations: { "egress.coil.cybozu.com/internet": "nat" },
      },
      spec: { nodeName: "n1", containers: [] },
    });
  }
  lab.start();
  // Pods are noted one by one.
  await lab.until(() => assert.deepEqual([...together].sort(), [1, 3, 50]));
});

Deno.test("an Egress gets what its gateways need, written once each", async () => {
  await using lab = new EgressLab().start();
  const { api } = lab;
  api.put("egresses", egressOf({ podDisruptionBudget: { minAvailable: 1 } }));
  await lab.until(() => assert.equal(readyReason(lab), "NoGatewayAvailable"));
  await lab.quiet();
  assert.deepEqual(api.writes.toSorted(), [
    `PATCH ${CLUSTER_ROLE_BINDING}`,
    `PATCH ${DEPLOYMENT}`,
    `PATCH ${EGRESS}/status`,
    `PATCH ${BUDGET}`,
    `PATCH ${ROLE_BINDING}`,
    "PATCH serviceaccounts/internet/coil-egress",
    `PATCH ${SERVICE}`,
    "POST egressclientslices/internet/nat-0",
  ]);
  assert.deepEqual(
    lab.events.toSorted(),
    ["Deployment", "PodDisruptionBudget", "Service"].map((kind) =>
      `Created of internet/nat: Created ${kind} "nat"`
    ),
  );
  assert.deepEqual([...new Set(lab.uids.values())], ["uid-of-nat"]);
  const { spec } = api.get<V1Deployment>(DEPLOYMENT) ?? {};
  assert.equal(spec?.replicas, 2);
  const images = spec?.template.spec?.containers.map(({ image }) => image);
  assert.deepEqual(images, ["example.com/coil:1"]);
  assert.deepEqual(readersOf(lab), ["internet"]);
  const binding = api.get<V1RoleBinding>(ROLE_BINDING);
  assert.deepEqual(binding?.roleRef, {
    apiGroup: "rbac.authorization.k8s.io",
    kind: "ClusterRole",
    name: "coil-egress-gateway",
  });
  assert.deepEqual(binding?.subjects, [
    { kind: "ServiceAccount", name: "coil-egress", namespace: "internet" },
  ]);
  const { status } = api.get<Egress>(EGRESS) ?? {};
  const changed = egressOf({
    replicas: 3,
    podDisruptionBudget: { minAvailable: 2 },
  });
  api.put("egresses", { ...changed, ...status && { status } });
  await lab.until(() =>
    assert.equal(api.get<V1Deployment>(DEPLOYMENT)?.spec?.replicas, 3)
  );
  await lab.quiet();
  assert.equal(lab.events.length, 3, "a change makes nothing new");
});

Deno.test("an Egress that is being deleted gets nothing", async () => {
  await using lab = new EgressLab().start();
  const { metadata, ...rest } = egressOf();
  const deletionTimestamp = "2026-01-01T00:00:00Z";
  lab.api.put("egresses", {
    ...rest,
    metadata: { ...metadata, deletionTimestamp },
  });
  await lab.quiet();
  assert.deepEqual(lab.api.writes, []);
});

Deno.test("what others change or remove of an Egress' objects is put back", async () => {
  await using lab = new EgressLab().start();
  const { api } = lab;
  api.put("egresses", egressOf({ podDisruptionBudget: { minAvailable: 1 } }));
  await lab.until(() => assert.equal(readyReason(lab), "NoGatewayAvailable"));
  await lab.quiet();
  const deployment = api.get<V1Deployment>(DEPLOYMENT);
  api.put("deployments", {
    ...deployment,
    spec: { ...deployment?.spec, replicas: 0 },
  });
  await lab.until(() =>
    assert.equal(api.get<V1Deployment>(DEPLOYMENT)?.spec?.replicas, 2)
  );
  const keys = [
    ...[SERVICE, BUDGET, DEPLOYMENT, ROLE_BINDING],
    "serviceaccounts/internet/coil-egress",
  ];
  for (const key of keys) {
    api.remove(key);
    await lab.until(() => assert.ok(api.get(key), key));
  }
  const binding = bindingNamed("coil-egress");
  api.put("clusterrolebindings", { ...binding, subjects: [] });
  await lab.until(() => assert.deepEqual(readersOf(lab), ["internet"]));
  const { subjects } = api.get<V1ClusterRoleBinding>(CLUSTER_ROLE_BINDING) ??
    {};
  assert.deepEqual(subjects, [
    { kind: "ServiceAccount", name: "coil-egress", namespace: "internet" },
  ]);
});

Deno.test("objects of an earlier Egress of the name are waited for", async () => {
  await using lab = new EgressLab().start();
  const { api } = lab;
  const owner = { apiVersion: "coil.cybozu.com/v2", kind: "Egress" };
  const earlier = { ...owner, name: "nat", uid: "earlier", controller: true };
  const metadata = { namespace: "internet", name: "nat" };
  const labels = egressLabels("nat");
  const ownerReferences = [earlier];
  api.put("services", { metadata: { ...metadata, labels, ownerReferences } });
  api.put("egresses", egressOf());
  await lab.until(() => assert.equal(readyReason(lab), "NameTaken"));
  const [ready] = api.get<Egress>(EGRESS)?.status?.conditions ?? [];
  assert.match(ready?.message ?? "", /belongs to an earlier Egress/);
  assert.equal(api.get<V1Service>(SERVICE)?.spec, undefined);
});

Deno.test("labels that others put on gateways go, and annotations stay", async () => {
  await using lab = new EgressLab().start();
  const { api } = lab;
  api.put("egresses", egressOf());
  await lab.until(() => assert.equal(readyReason(lab), "NoGatewayAvailable"));
  await lab.quiet();
  const deployment = api.get<V1Deployment>(DEPLOYMENT);
  const { template } = deployment?.spec ?? {};
  const annotations = { restarted: "now" };
  const metadata = {
    annotations: { ...template?.metadata?.annotations, ...annotations },
    labels: { ...template?.metadata?.labels, foreign: "yes" },
  };
  const { length } = api.writes;
  api.put("deployments", {
    ...deployment,
    spec: { ...deployment?.spec, template: { ...template, metadata } },
  });
  const metadataNow = () =>
    api.get<V1Deployment>(DEPLOYMENT)?.spec?.template.metadata;
  await lab.until(() =>
    assert.deepEqual(metadataNow()?.labels, template?.metadata?.labels)
  );
  assert.equal(metadataNow()?.annotations?.["restarted"], "now");
  await lab.quiet();
  const writes = api.writes.slice(length).filter((write) =>
    write.includes("deployments/")
  );
  // The apply keeps what it does not name, so another write removes it.
  assert.equal(writes.length, 2, writes.join());
});

Deno.test("a budget goes when its Egress wants none, unless it has another owner", async () => {
  await using lab = new EgressLab().start();
  const { api } = lab;
  api.put("egresses", egressOf({ podDisruptionBudget: { minAvailable: 1 } }));
  await lab.until(() => assert.ok(api.get(BUDGET)));
  await lab.quiet();
  api.put("egresses", egressOf());
  await lab.until(() => assert.equal(api.get(BUDGET), undefined));
  api.put("poddisruptionbudgets", {
    metadata: {
      namespace: "internet",
      name: "nat",
      labels: egressLabels("nat"),
    },
  });
  await lab.quiet();
  assert.ok(api.get(BUDGET));
});

Deno.test("objects of an Egress' name that have another owner are left alone, and its status says so", async () => {
  await using lab = new EgressLab().start();
  const { api } = lab;
  const foreign: KubeObject = {
    metadata: {
      namespace: "internet",
      name: "nat",
      // One label more than another program's, and it would be the Egress'.
      labels: { ...egressLabels("nat"), "app.kubernetes.io/component": "dmz" },
    },
  };
  api.put("services", foreign);
  api.put("deployments", foreign);
  api.put("egresses", egressOf());
  await lab.until(() => assert.equal(readyReason(lab), "NameTaken"));
  assert.equal(api.get<V1Service>(SERVICE)?.spec, undefined);
  assert.equal(api.get<V1Deployment>(DEPLOYMENT)?.spec, undefined);
  // As soon as they are gone, the Egress gets its own.
  api.remove(SERVICE);
  api.remove(DEPLOYMENT);
  await lab.until(() => assert.equal(readyReason(lab), "NoGatewayAvailable"));
});

for (
  const [kind, key] of Object.entries({
    Service: SERVICE,
    Deployment: DEPLOYMENT,
    RoleBinding: ROLE_BINDING,
  })
) {
  Deno.test(`a ${kind} that the API server refuses is in the status, and the rest is made`, async () => {
    await using lab = new EgressLab();
    const { api } = lab;
    let isRefused = true;
    api.refuse = (write) =>
      isRefused && write.endsWith(` ${key}`) ? 403 : undefined;
    lab.start();
    api.put("egresses", egressOf());
    await lab.until(() => assert.equal(readyReason(lab), `${kind}Refused`));
    const others = [SERVICE, DEPLOYMENT, ROLE_BINDING].filter((k) => k !== key);
    for (const other of others) assert.ok(api.get(other), other);
    isRefused = false;
    await lab.until(() => assert.equal(readyReason(lab), "NoGatewayAvailable"));
    assert.ok(api.get(key));
  });
}

Deno.test("gateways whose clients cannot be written are not started, until they can", async () => {
  await using lab = new EgressLab();
  const { api } = lab;
  let isRefused = true;
  api.refuse = (write) =>
    isRefused && write.includes("egressclientslices/") ? 403 : undefined;
  lab.start();
  api.put("egresses", egressOf());
  await lab.until(() =>
    assert.equal(readyReason(lab), "EgressClientSliceRefused")
  );
  assert.ok(api.get(SERVICE));
  assert.equal(api.get(DEPLOYMENT), undefined);
  isRefused = false;
  await lab.until(() => assert.equal(readyReason(lab), "NoGatewayAvailable"));
});

Deno.test("without the gateways' ClusterRoleBinding no Egress is ready, until it is there", async () => {
  await using lab = new EgressLab();
  const { api } = lab;
  api.remove(CLUSTER_ROLE_BINDING);
  lab.start();
  api.put("egresses", egressOf());
  await lab.until(() =>
    assert.equal(readyReason(lab), "ClusterRoleBindingMissing")
  );
  api.put("clusterrolebindings", bindingNamed("coil-egress"));
  await lab.until(() => assert.equal(readyReason(lab), "NoGatewayAvailable"));
  assert.deepEqual(readersOf(lab), ["internet"]);
});

Deno.test("without Egresses the gateways' ClusterRoleBinding is not needed", async () => {
  await using lab = new EgressLab();
  lab.api.remove(CLUSTER_ROLE_BINDING);
  lab.start();
  await lab.quiet();
  const metrics = await lab.registry.metrics();
  assert.doesNotMatch(metrics, /^controller_runtime_reconcile_errors.* [1-9]/m);
});

Deno.test("an Egress whose template cannot be used says so, and gets its Deployment when it can", async () => {
  await using lab = new EgressLab().start();
  const { api } = lab;
  const template = { spec: { volumes: "none" } } as never;
  api.put("egresses", egressOf({ template }));
  await lab.until(() => assert.equal(readyReason(lab), "InvalidTemplate"));
  assert.equal(api.get(DEPLOYMENT), undefined);
  api.put("egresses", egressOf());
  await lab.until(() => assert.equal(readyReason(lab), "NoGatewayAvailable"));
});

Deno.test("a ClusterRoleBinding that cannot be changed keeps Egresses from being ready", async () => {
  await using lab = new EgressLab();
  const { api } = lab;
  let isRefused = true;
  api.refuse = (write) =>
    isRefused && write.endsWith(CLUSTER_ROLE_BINDING) ? 403 : undefined;
  lab.start();
  api.put("egresses", egressOf());
  await lab.until(() =>
    assert.equal(readyReason(lab), "ClusterRoleBindingRefused")
  );
  isRefused = false;
  await lab.until(() => assert.equal(readyReason(lab), "NoGatewayAvailable"));
});

Deno.test("the binding for PodSecurityPolicies has the same subjects, and need not exist", async () => {
  await using lab = new EgressLab();
  const { api } = lab;
  lab.start();
  api.put("egresses", egressOf());
  await lab.until(() => assert.equal(readyReason(lab), "NoGatewayAvailable"));
  const key = "clusterrolebindings//psp-coil-egress";
  api.put("clusterrolebindings", bindingNamed("psp-coil-egress"));
  await lab.until(() =>
    assert.equal(api.get<V1ClusterRoleBinding>(key)?.subjects?.length, 1)
  );
  api.refuse = (write) => write.endsWith(key) ? 403 : undefined;
  api.put("egresses", egressOf({ namespace: "dmz" }));
  await lab.until(() => assert.deepEqual(readersOf(lab), ["dmz", "internet"]));
  await lab.quiet();
  assert.equal(readyReason(lab), "NoGatewayAvailable");
});

Deno.test("a namespace whose last Egress goes loses its rights, but another owner's binding stays", async () => {
  await using lab = new EgressLab().start();
  const { api } = lab;
  api.put("egresses", egressOf());
  api.put("egresses", egressOf({ namespace: "dmz" }));
  const other = "rolebindings/dmz/coil-egress";
  await lab.until(() => {
    assert.ok(api.get(ROLE_BINDING) && api.get(other));
    assert.deepEqual(readersOf(lab), ["dmz", "internet"]);
  });
  await lab.quiet();
  const foreign = { namespace: "dmz", name: "coil-egress" };
  api.remove(EGRESS);
  await lab.until(() => {
    assert.equal(api.get(ROLE_BINDING), undefined);
    assert.deepEqual(readersOf(lab), ["dmz"]);
  });
  assert.ok(api.get(other));
  api.put("rolebindings", { metadata: { ...foreign, labels: {} } });
  api.remove("egresses/dmz/nat");
  await lab.until(() => assert.deepEqual(readersOf(lab), []));
  await lab.quiet();
  assert.ok(api.get(other));
});

Deno.test("the entry of a gateway in the status goes with its pod", async () => {
  await using lab = new EgressLab().start();
  const { api } = lab;
  const labels = egressLabels("nat");
  for (const name of ["nat-a", "nat-b"]) {
    api.put("pods", { metadata: { namespace: "internet", name, labels } });
  }
  const gateways = ["nat-a", "nat-gone", "nat-b"].map((name) => ({ name }));
  api.put("egresses", { ...egressOf(), status: { gateways } });
  const names = () =>
    api.get<Egress>(EGRESS)?.status?.gateways?.map(({ name }) => name);
  await lab.until(() => assert.deepEqual(names(), ["nat-a", "nat-b"]));
  await lab.quiet();
  const looks = async () =>
    /^controller_runtime_reconcile_total\{.*controller="egress".*$/m
      .exec(await lab.registry.metrics())?.[0];
  const before = await looks();
  api.put("pods", {
    metadata: { namespace: "internet", name: "nat-b", labels },
    status: { phase: "Running" },
  });
  await lab.quiet();
  assert.equal(await looks(), before, "pods report themselves by the status");
  api.remove("pods/internet/nat-a");
  await lab.until(() => assert.deepEqual(names(), ["nat-b"]));
});
