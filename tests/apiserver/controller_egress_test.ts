import assert from "node:assert/strict";
import type { StoredDeployment } from "./controller_egress_lab.ts";
import { EgressLab, IMAGE } from "./controller_egress_lab.ts";
import { eventually } from "../lab/mod.ts";

const KEY = "internet/nat";

const LABELS = {
  "app.kubernetes.io/name": "coil",
  "app.kubernetes.io/component": "egress",
  "app.kubernetes.io/instance": "nat",
};

const MERGE = { contentType: "application/merge-patch+json" };
const DEPLOYMENT = "/apis/apps/v1/namespaces/internet/deployments/nat";
const SERVICE = "/api/v1/namespaces/internet/services/nat";

function containerNames({ spec }: StoredDeployment): readonly string[] {
  return spec.template.spec?.containers.map(({ name }) => name) ?? [];
}

function gatewayOf({ spec }: StoredDeployment) {
  const { containers = [] } = spec.template.spec ?? {};
  const gateway = containers.find(({ name }) => name === "egress");
  assert.ok(gateway);
  return gateway;
}

Deno.test("coil-controller makes the gateways of an Egress", async (t) => {
  await using lab = await EgressLab.start("ctlegress", ["internet"]);
  await using _controller = lab.startController(`--egress-image=${IMAGE}`);

  await t.step("CT-14: Deployment, Service and service account", async () => {
    await lab.create(KEY);
    const { metadata, spec } = await lab.awaitDeployment(KEY, "exists");
    const service = await eventually("the Service", () => lab.service(KEY));
    const { uid } = (await lab.egress(KEY)).metadata;
    for (const owned of [metadata, service.metadata]) {
      const owners = owned?.ownerReferences ?? [];
      assert.deepEqual(
        owners.map((o) => [o.kind, o.name, o.uid, o.controller]),
        [
          ["Egress", "nat", uid, true],
        ],
      );
      assert.deepEqual(owned?.labels, LABELS);
    }
    assert.equal(spec.replicas, 1);
    assert.ok(
      await lab.exists("/api/v1", "serviceaccounts", "internet/coil-egress"),
    );
    const binding = await lab.get<Record<string, unknown>>(
      "/apis/rbac.authorization.k8s.io/v1",
      "rolebindings",
      "internet/coil-egress",
    );
    assert.deepEqual(binding["roleRef"], {
      apiGroup: "rbac.authorization.k8s.io",
      kind: "ClusterRole",
      name: "coil-egress-gateway",
    });
    assert.deepEqual(binding["subjects"], [{
      kind: "ServiceAccount",
      name: "coil-egress",
      namespace: "internet",
    }]);
    await lab.awaitEvents(KEY, "Normal Created");
  });

  await t.step("CT-15: the template of the pods", async () => {
    const deployment = await lab.deployment(KEY);
    const { template, selector } = deployment.spec;
    assert.deepEqual(selector.matchLabels, LABELS);
    assert.deepEqual(template.metadata?.labels, LABELS);
    const { spec } = template;
    assert.equal(spec?.serviceAccountName, "coil-egress");
    assert.equal(spec?.terminationGracePeriodSeconds, 330);
    assert.deepEqual(spec?.volumes?.map(({ name }) => name), [
      "run",
      "modules",
      "sysctl",
    ]);
    const gateway = gatewayOf(deployment);
    assert.equal(gateway.image, IMAGE);
    assert.deepEqual(gateway.command, ["coil-egress"]);
    assert.deepEqual(gateway.env?.map(({ name }) => name), [
      "COIL_POD_NAMESPACE",
      "COIL_EGRESS_NAME",
      "COIL_POD_ADDRESSES",
      "COIL_POD_NAME",
      "COIL_NODE_NAME",
    ]);
    assert.equal(gateway.volumeMounts?.length, 3);
    assert.equal(gateway.securityContext?.readOnlyRootFilesystem, true);
    assert.deepEqual(gateway.resources?.requests, {
      cpu: "100m",
      memory: "200Mi",
    });
    assert.equal(gateway.ports?.length, 2);
    assert.deepEqual(gateway.livenessProbe, {
      httpGet: { path: "/healthz", port: "health", scheme: "HTTP" },
      periodSeconds: 10,
      timeoutSeconds: 5,
      failureThreshold: 6,
      successThreshold: 1,
    });
    assert.deepEqual(gateway.readinessProbe, {
      httpGet: { path: "/readyz", port: "health", scheme: "HTTP" },
      periodSeconds: 1,
      timeoutSeconds: 1,
      failureThreshold: 2,
      successThreshold: 1,
    });
  });

  await t.step(
    "CT-16: the Service, of both families, and the selector",
    async () => {
      const { spec } = await lab.service(KEY);
      assert.equal(spec?.type, "ClusterIP");
      assert.deepEqual(spec?.selector, LABELS);
      assert.deepEqual(spec?.ports, [
        { port: 5555, targetPort: 5555, protocol: "UDP" },
      ]);
      assert.equal(spec?.sessionAffinity, "ClientIP");
      assert.equal(spec?.ipFamilyPolicy, "PreferDualStack");
      assert.equal(spec?.clusterIPs?.length, 2);
      const selector = await eventually(
        "the selector",
        async () => (await lab.egress(KEY)).status?.selector,
      );
      const listed = await lab.plane.kubectl(
        ...[
          "-n",
          "internet",
          "get",
          "deployment",
          "-l",
          selector,
          "-o",
          "name",
        ],
      );
      assert.equal(listed.trim(), "deployment.apps/nat");
    },
  );

  await t.step("W24: the port is the gateways' too", async () => {
    const { args = [] } = gatewayOf(await lab.deployment(KEY));
    assert.ok(args.includes("--fou-port=5555"), args.join());
  });

  await t.step(
    "CT-17: strategy and template are copied, our labels win",
    async () => {
      await lab.change(KEY, { strategy: { type: "Recreate" } });
      await lab.awaitDeployment(
        KEY,
        "Recreate",
        ({ spec }) => spec.strategy?.type === "Recreate",
      );
      await lab.change(KEY, {
        strategy: {
          type: "RollingUpdate",
          rollingUpdate: { maxSurge: 3, maxUnavailable: 2 },
        },
        template: {
          metadata: {
            annotations: { foo: "bar" },
            labels: { team: "net", "app.kubernetes.io/name": "mine" },
          },
          spec: {
            schedulerName: "mine",
            serviceAccountName: "mine",
            serviceAccount: "mine",
            volumes: [{ name: "spool", emptyDir: {} }],
            containers: [
              { name: "sidecar", image: "example.com/sidecar:1" },
              { name: "egress" },
            ],
          },
        },
      });
      const { spec } = await lab.awaitDeployment(
        KEY,
        "the sidecar",
        (d) => containerNames(d).length === 2,
      );
      assert.deepEqual(spec.strategy, {
        type: "RollingUpdate",
        rollingUpdate: { maxSurge: 3, maxUnavailable: 2 },
      });
      const { metadata, spec: pod } = spec.template;
      assert.equal(metadata?.annotations?.["foo"], "bar");
      assert.deepEqual(metadata?.labels, { ...LABELS, team: "net" });
      assert.equal(pod?.schedulerName, "mine");
      // Nobody gets at another account of the namespace by an Egress.
      assert.equal(pod?.serviceAccountName, "coil-egress");
      assert.equal(pod?.serviceAccount, "coil-egress");
      assert.equal(pod?.volumes?.length, 4);
    },
  );

  await t.step(
    "CT-18: what the template has no more is taken back",
    async () => {
      await lab.change(KEY, { template: null });
      await lab.change(KEY, {
        template: {
          spec: {
            containers: [{
              name: "egress",
              image: "example.com/other:2",
              resources: { requests: { cpu: "2" }, limits: { cpu: "2" } },
            }],
          },
        },
      });
      const deployment = await lab.awaitDeployment(
        KEY,
        "the other image",
        (d) => gatewayOf(d).image === "example.com/other:2",
      );
      assert.deepEqual(containerNames(deployment), ["egress"]);
      const gateway = gatewayOf(deployment);
      assert.deepEqual(gateway.resources, {
        requests: { cpu: "2", memory: "200Mi" },
        limits: { cpu: "2" },
      });
      const { metadata, spec } = deployment.spec.template;
      assert.deepEqual(metadata?.labels, LABELS);
      assert.equal(metadata?.annotations?.["foo"], undefined);
      assert.equal(spec?.schedulerName, "default-scheduler");
      assert.equal(spec?.volumes?.length, 3);
      assert.equal(gateway.env?.length, 5);
      assert.equal(gateway.ports?.length, 2);
      assert.ok(gateway.livenessProbe && gateway.readinessProbe);
    },
  );

  await t.step(
    "CT-19, W25: the affinity and its time-out come and go",
    async () => {
      const awaitAffinity = (expected: string) =>
        eventually(`affinity ${expected}`, async () => {
          const { spec } = await lab.service(KEY);
          const seconds = spec?.sessionAffinityConfig?.clientIP?.timeoutSeconds;
          return `${spec?.sessionAffinity} ${seconds}` === expected;
        });
      await lab.change(KEY, { sessionAffinity: "None" });
      await awaitAffinity("None undefined");
      await lab.change(KEY, {
        sessionAffinity: "ClientIP",
        sessionAffinityConfig: { clientIP: { timeoutSeconds: 100 } },
      });
      await awaitAffinity("ClientIP 100");
      await lab.change(KEY, { sessionAffinityConfig: null });
      await awaitAffinity("ClientIP 10800");
    },
  );

  await t.step("W25: the strategy goes back to the default", async () => {
    for (const type of ["Recreate", "RollingUpdate"]) {
      await lab.change(KEY, { strategy: { type, rollingUpdate: null } });
      await lab.awaitDeployment(
        KEY,
        type,
        ({ spec }) => spec.strategy?.type === type,
      );
    }
    await lab.change(KEY, { strategy: { type: "Recreate" } });
    await lab.awaitDeployment(
      KEY,
      "Recreate",
      ({ spec }) => spec.strategy?.type === "Recreate",
    );
    await lab.change(KEY, { strategy: null });
    const { spec } = await lab.awaitDeployment(
      KEY,
      "the default strategy",
      ({ spec }) => spec.strategy?.type === "RollingUpdate",
    );
    assert.deepEqual(spec.strategy?.rollingUpdate, {
      maxSurge: "25%",
      maxUnavailable: "25%",
    });
  });

  await t.step("CT-20: what is deleted is made again", async () => {
    const [deployment, service] = [
      await lab.deployment(KEY),
      await lab.service(KEY),
    ];
    await lab.plane.request("DELETE", DEPLOYMENT);
    await lab.awaitDeployment(
      KEY,
      "made again",
      ({ metadata }) => metadata.uid !== deployment.metadata.uid,
    );
    await lab.plane.request("DELETE", SERVICE);
    await eventually("the new Service", async () => {
      const { metadata } = await lab.service(KEY);
      return metadata?.uid !== service.metadata?.uid;
    });
  });

  await t.step(
    "CT-23: annotations of others stay, labels of pods go",
    async () => {
      await lab.plane.request("PATCH", DEPLOYMENT, {
        spec: {
          template: {
            metadata: {
              annotations: { "kubectl.kubernetes.io/restartedAt": "now" },
              labels: { foreign: "label" },
            },
          },
        },
      }, MERGE);
      const { spec } = await lab.awaitDeployment(
        KEY,
        "without the label",
        ({ spec }) => spec.template.metadata?.labels?.["foreign"] === undefined,
      );
      const { annotations } = spec.template.metadata ?? {};
      assert.equal(annotations?.["kubectl.kubernetes.io/restartedAt"], "now");
      // Also through a change of ours.
      await lab.change(KEY, { replicas: 2 });
      const after = await lab.awaitDeployment(
        KEY,
        "2 replicas",
        ({ spec }) => spec.replicas === 2,
      );
      assert.equal(
        after.spec.template.metadata?.annotations
          ?.["kubectl.kubernetes.io/restartedAt"],
        "now",
      );
    },
  );

  await t.step("what others change in our fields is put back", async () => {
    await lab.plane.kubectl(
      ...["-n", "internet", "scale", "deployment/nat", "--replicas=7"],
    );
    await lab.awaitDeployment(
      KEY,
      "2 replicas again",
      ({ spec }) => spec.replicas === 2,
    );
    await lab.plane.request("PATCH", SERVICE, {
      spec: { selector: { "app.kubernetes.io/instance": "other" } },
    }, MERGE);
    await eventually("the selector again", async () => {
      const { spec } = await lab.service(KEY);
      return spec?.selector?.["app.kubernetes.io/instance"] === "nat";
    });
  });

  await t.step(
    "CT-24, W25: the disruption budget comes, changes and goes",
    async () => {
      await lab.change(KEY, { podDisruptionBudget: { minAvailable: 1 } });
      const budget = await eventually("the budget", () => lab.budget(KEY));
      assert.equal(budget.spec?.minAvailable, 1);
      assert.deepEqual(budget.spec?.selector, { matchLabels: LABELS });
      assert.equal(budget.metadata?.ownerReferences?.[0]?.name, "nat");
      await lab.change(KEY, {
        podDisruptionBudget: { minAvailable: null, maxUnavailable: "50%" },
      });
      await eventually("the other limit alone", async () => {
        const { spec } = await lab.budget(KEY);
        return spec?.minAvailable === undefined &&
          spec?.maxUnavailable === "50%";
      });
      await lab.change(KEY, { podDisruptionBudget: null });
      await eventually(
        "the end of the budget",
        async () =>
          !await lab.exists("/apis/policy/v1", "poddisruptionbudgets", KEY),
      );
    },
  );

  await t.step("the scale subresource and the columns", async () => {
    await lab.plane.kubectl(
      ...["-n", "internet", "scale", "egress/nat", "--replicas=3"],
    );
    await lab.awaitDeployment(
      KEY,
      "3 replicas",
      ({ spec }) => spec.replicas === 3,
    );
    await lab.reportPods(KEY, {
      replicas: 3,
      updatedReplicas: 3,
      readyReplicas: 2,
      availableReplicas: 2,
    });
    await eventually("the columns", async () => {
      const args = ["-n", "internet", "get", "egress", "nat", "--no-headers"];
      const line = await lab.plane.kubectl(...args);
      return /^nat +True +GatewayAvailable +3 +2 +/.test(line);
    });
    const scale = await lab.plane.request(
      "GET",
      "/apis/coil.cybozu.com/v2/namespaces/internet/egresses/nat/scale",
    ) as { status: { replicas: number; selector: string } };
    assert.equal(scale.status.replicas, 3);
    assert.match(scale.status.selector, /instance=nat/);
  });

  await t.step("nothing is written when nothing changed", async () => {
    const before = await versions(lab);
    const since = new Date();
    // Two that reconcile it: a label that nobody cares for, and a pod that goes.
    await lab.plane.kubectl(
      ...["-n", "internet", "label", "egress/nat", "touched=1"],
    );
    await lab.createPod(KEY, "gone");
    await lab.plane.kubectl(
      ...["-n", "internet", "delete", "pod/gone", "--force"],
    );
    // What comes of this comes after all that comes of the above.
    await lab.reportPods(KEY, { replicas: 3, availableReplicas: 3 });
    await eventually(
      "3 pods",
      async () => (await lab.egress(KEY)).status?.availableReplicas === 3,
    );
    // The audit log is written after what it tells of.
    const writes = await eventually("the audit log", async () => {
      const found = await lab.writesSince(since);
      return found.length > 0 && found;
    });
    assert.deepEqual(writes, ["patch egresses/status nat"]);
    const { service } = await versions(lab);
    assert.equal(service, before.service);
  });
});

async function versions(lab: EgressLab) {
  const { metadata: deployment } = await lab.deployment(KEY);
  const { metadata: service } = await lab.service(KEY);
  const { metadata: egress } = await lab.egress(KEY);
  return {
    deployment: deployment.resourceVersion,
    service: service?.resourceVersion,
    egress: egress.resourceVersion,
  };
}

/** What a controller writes that starts, until it has taken over so many available pods: it applies each object, which changes none. */
async function writesOfStart(
  lab: EgressLab,
  { available }: { readonly available: number },
): Promise<readonly string[]> {
  const before = await versions(lab);
  const since = new Date();
  await using _controller = lab.startController(`--egress-image=${IMAGE}`);
  const written = (what: string) =>
    eventually(`the write of ${what}`, async () => {
      const found = await lab.writesSince(since);
      return found.some((write) => write.includes(what)) && found;
    });
  for (
    const what of ["deployments", "services", "poddisruption", "rolebindings"]
  ) {
    // The namespace's rights are looked at beside the Egress.
    await written(what);
  }
  assert.deepEqual(await versions(lab), before);
  // What comes of this comes after all that comes of the start.
  await lab.reportPods(KEY, { replicas: 2, availableReplicas: available });
  await eventually(
    `${available} pods`,
    async () => (await lab.egress(KEY)).status?.availableReplicas === available,
  );
  return (await written("egresses/status")).toSorted();
}

Deno.test("coil-controller starts again without writing, and follows its flags", async (t) => {
  await using lab = await EgressLab.start("ctlegress2", ["internet"]);
  const full = {
    replicas: 2,
    strategy: { type: "Recreate" as const },
    podDisruptionBudget: { maxUnavailable: 1 },
    sessionAffinity: "None" as const,
    template: {
      metadata: { labels: { team: "net" } },
      spec: {
        containers: [
          { name: "sidecar", image: "example.com/sidecar:1" },
          { name: "egress", env: [{ name: "A", value: "1" }] },
        ],
      },
    },
  };

  await t.step("a restart writes nothing", async () => {
    const first = lab.startController(`--egress-image=${IMAGE}`);
    await lab.create(KEY, full);
    await lab.awaitCondition(KEY, "Progressing", "True RollingOut");
    await eventually(
      "the subject",
      async () => (await lab.subjectsOf("coil-egress")).length === 1,
    );
    await eventually("the budget", () => lab.budget(KEY));
    await first[Symbol.asyncDispose]();
    const writes = await writesOfStart(lab, { available: 2 });
    const once = [
      "patch deployments nat",
      "patch egresses/status nat",
      "patch poddisruptionbudgets nat",
      "patch rolebindings coil-egress",
      "patch services nat",
    ];
    assert.deepEqual([...new Set(writes)], once);
    // A machine that stands still for ten seconds takes the lease away: then all is applied once more.
    const isAgain = writes.length > once.length;
    if (isAgain) {
      assert.deepEqual(await writesOfStart(lab, { available: 1 }), once);
    }
  });

  await t.step("W24: another port reaches Service and gateways", async () => {
    await using _controller = lab.startController(
      `--egress-image=${IMAGE}`,
      "--egress-port=5678",
      "--drain-timeout=10s",
    );
    const { spec } = await lab.awaitDeployment(
      KEY,
      "the port",
      (d) => gatewayOf(d).args?.includes("--fou-port=5678") ?? false,
    );
    assert.equal(spec.template.spec?.terminationGracePeriodSeconds, 40);
    await eventually("the Service's port", async () => {
      const { ports = [] } = (await lab.service(KEY)).spec ?? {};
      return JSON.stringify(ports) ===
        '[{"protocol":"UDP","port":5678,"targetPort":5678}]';
    });
  });

  for (const backend of ["iptables", "nftables"]) {
    await t.step(`CT-25: --backend=${backend}`, async () => {
      await using _controller = lab.startController(
        `--egress-image=${IMAGE}`,
        `--backend=${backend}`,
      );
      await lab.awaitDeployment(
        KEY,
        "the backend",
        (d) => gatewayOf(d).args?.includes(`--backend=${backend}`) ?? false,
      );
    });
  }

  await t.step(
    "W26: the image is that of the controller's own container",
    async () => {
      await lab.plane.apply({
        apiVersion: "v1",
        kind: "Pod",
        metadata: { name: "coil-controller-0", namespace: "kube-system" },
        spec: {
          serviceAccountName: "coil-controller",
          automountServiceAccountToken: false,
          containers: [
            { name: "injected", image: "example.com/proxy:1" },
            { name: "coil-controller", image: "example.com/coil:7" },
          ],
        },
      });
      // A process, for an environment of its own.
      await using _controller = await lab.spawnController({
        COIL_POD_NAMESPACE: "kube-system",
        COIL_POD_NAME: "coil-controller-0",
      });
      await lab.awaitDeployment(
        KEY,
        "the image",
        (d) => gatewayOf(d).image === "example.com/coil:7",
      );
    },
  );
});
