import assert from "node:assert/strict";
import { eventually } from "../lab/mod.ts";
import { EgressLab, IMAGE } from "./controller_egress_lab.ts";

const KEY = "internet/nat";

const LABELS = {
  "app.kubernetes.io/name": "coil",
  "app.kubernetes.io/component": "egress",
  "app.kubernetes.io/instance": "nat",
};

Deno.test("what upstream's controller made is taken over, and what nobody wants of it goes", async () => {
  await using lab = await EgressLab.start("ctltake", ["internet"]);
  await lab.create(KEY, { podDisruptionBudget: { minAvailable: 1 } });
  const { uid } = (await lab.egress(KEY)).metadata;
  const metadata = {
    name: "nat",
    labels: LABELS,
    ownerReferences: [{
      apiVersion: "coil.cybozu.com/v2",
      kind: "Egress",
      name: "nat",
      uid,
      controller: true,
      blockOwnerDeletion: true,
    }],
  };
  const create = (path: string, object: object) =>
    lab.plane.request(
      "POST",
      `${path}?fieldManager=coil-controller`,
      { metadata, ...object },
    );
  const change = (manager: string, pod: object) =>
    lab.plane.request(
      "PATCH",
      `/apis/apps/v1/namespaces/internet/deployments/nat?fieldManager=${manager}`,
      { spec: { template: { spec: pod } } },
      { contentType: "application/strategic-merge-patch+json" },
    );
  await create("/apis/apps/v1/namespaces/internet/deployments", {
    apiVersion: "apps/v1",
    kind: "Deployment",
    spec: {
      replicas: 1,
      selector: { matchLabels: LABELS },
      template: {
        metadata: { labels: LABELS },
        spec: {
          schedulerName: "of-a-former-template",
          volumes: [{ name: "former", emptyDir: {} }],
          containers: [{
            name: "egress",
            image: "ghcr.io/cybozu-go/coil:2.15.0",
            args: ["--zap-stacktrace-level=panic", "--backend=iptables"],
            env: [{ name: "FORMER", value: "1" }],
          }],
        },
      },
    },
  });
  await create("/apis/policy/v1/namespaces/internet/poddisruptionbudgets", {
    apiVersion: "policy/v1",
    kind: "PodDisruptionBudget",
    spec: { minAvailable: 1, selector: { matchLabels: LABELS } },
  });
  // The controller had another name later, and owns what it added since.
  await change("coil-egress-controller", {
    volumes: [{ name: "later", emptyDir: {} }],
    containers: [{ name: "egress", env: [{ name: "LATER", value: "1" }] }],
  });
  const before = await lab.deployment(KEY);

  await using _controller = lab.startController(`--egress-image=${IMAGE}`);
  const after = await lab.awaitDeployment(
    KEY,
    "our image",
    ({ spec }) => spec.template.spec?.containers[0]?.image === IMAGE,
  );
  assert.equal(after.metadata.uid, before.metadata.uid);
  const { volumes, containers, schedulerName } = after.spec.template.spec ?? {};
  assert.deepEqual(volumes?.map(({ name }) => name), [
    "run",
    "modules",
    "sysctl",
  ]);
  assert.equal(schedulerName, "default-scheduler");
  const names = containers?.[0]?.env?.map(({ name }) => name) ?? [];
  assert.ok(!names.includes("FORMER"), names.join());
  assert.ok(!names.includes("LATER"), names.join());
  // What the API server had filled in for upstream goes too.
  await lab.change(KEY, {
    strategy: { type: "Recreate" },
    podDisruptionBudget: { minAvailable: null, maxUnavailable: 1 },
  });
  await lab.awaitDeployment(
    KEY,
    "Recreate",
    ({ spec }) => spec.strategy?.type === "Recreate",
  );
  await eventually("the other limit alone", async () => {
    const { spec } = await lab.budget(KEY);
    return spec?.minAvailable === undefined && spec?.maxUnavailable === 1;
  });
  // Gone back to upstream for a while, and what others own stays.
  await change("somebody", { volumes: [{ name: "theirs", emptyDir: {} }] });
  await change("coil-egress-controller", {
    volumes: [{ name: "concurrent", emptyDir: {} }],
  });
  await lab.awaitDeployment(KEY, "without upstream's volume", ({ spec }) => {
    const names = spec.template.spec?.volumes?.map(({ name }) => name) ?? [];
    return names.toSorted().join() === "modules,run,sysctl,theirs";
  });
});
