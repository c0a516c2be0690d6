import assert from "node:assert/strict";
import type { EgressTranslation } from "../../lib/api/mod.ts";
import { eventually, sleep } from "../lab/mod.ts";
import { untilInMemory } from "./api_memory.ts";
import { EgressLab, IMAGE } from "./controller_egress_lab.ts";
import { COIL_API } from "./crds.ts";

const KEY = "internet/nat";
const podsOf = <C extends object>(containers: C[]) => ({
  template: { spec: { containers } },
});

Deno.test("coil-controller says in an Egress' status how it is", async (t) => {
  await using lab = await EgressLab.start("ctlstatus", ["corp", "internet"]);
  await using _controller = lab.startController(`--egress-image=${IMAGE}`);

  await t.step("a new one is not ready, and progresses", async () => {
    await lab.create(KEY, { replicas: 2 });
    await lab.awaitCondition(KEY, "Ready", "False NoGatewayAvailable");
    await lab.awaitCondition(KEY, "Progressing", "True RollingOut");
    await lab.awaitCondition(KEY, "Degraded", "False RollingOut");
    await lab.awaitCondition(KEY, "CapacityLow", "Unknown NoReport");
    const { metadata, status } = await lab.egress(KEY);
    assert.equal(status?.observedGeneration, metadata.generation);
  });

  await t.step("it is ready with its first pod", async () => {
    await lab.reportPods(KEY, {
      replicas: 2,
      updatedReplicas: 2,
      availableReplicas: 1,
    });
    await lab.awaitCondition(KEY, "Ready", "True GatewayAvailable");
    await lab.awaitEvents(KEY, "Normal Ready");
  });

  await t.step(
    "it is complete with its last, and the time of Ready stays",
    async () => {
      const before = await lab.condition(KEY, "Ready");
      await sleep(1100);
      await lab.reportPods(KEY, {
        replicas: 2,
        updatedReplicas: 2,
        availableReplicas: 2,
        conditions: [{
          type: "Progressing",
          status: "True",
          reason: "NewReplicaSetAvailable",
        }],
      });
      await lab.awaitCondition(KEY, "Progressing", "False Complete");
      const after = await lab.condition(KEY, "Ready");
      assert.equal(after?.lastTransitionTime, before?.lastTransitionTime);
      assert.match(after?.message ?? "", /^2 of 2 pods/);
    },
  );

  await t.step("W29: a roll-out is no loss of replicas", async () => {
    await lab.reportPods(KEY, {
      replicas: 3,
      updatedReplicas: 1,
      availableReplicas: 2,
    });
    const { status } = await eventually("3 replicas", async () => {
      const egress = await lab.egress(KEY);
      return egress.status?.replicas === 3 && egress;
    });
    assert.equal(status?.availableReplicas, 2);
    const scale = await lab.plane.request(
      "GET",
      "/apis/coil.cybozu.com/v2/namespaces/internet/egresses/nat/scale",
    ) as { status: unknown };
    assert.deepEqual(scale.status, {
      replicas: 3,
      selector: status?.selector,
    });
  });

  await t.step(
    "pods that fail degrade it; without any it is not ready",
    async () => {
      const conditions = [{
        type: "Progressing",
        status: "True",
        reason: "NewReplicaSetAvailable",
      }];
      const pods = { replicas: 2, updatedReplicas: 2, conditions };
      await lab.reportPods(KEY, { ...pods, availableReplicas: 1 });
      await lab.awaitCondition(KEY, "Degraded", "True PodsUnavailable");
      await lab.reportPods(KEY, { ...pods, availableReplicas: 0 });
      await lab.awaitCondition(KEY, "Ready", "False NoGatewayAvailable");
      await lab.awaitEvents(
        KEY,
        "Warning NotReady",
        "Warning PodsUnavailable",
      );
      await lab.reportPods(KEY, { ...pods, availableReplicas: 2 });
      await lab.awaitCondition(KEY, "Degraded", "False AsWanted");
      await lab.awaitEvents(KEY, "Normal Recovered");
    },
  );

  await t.step(
    "reports of gateways stay; those of pods that are gone go",
    async () => {
      await lab.createPod(KEY, "nat-1");
      await lab.createPod(KEY, "nat-2");
      await lab.reportGateway(KEY, { name: "nat-1" });
      await lab.reportGateway(KEY, { name: "nat-2" });
      await lab.reportGateway(KEY, { name: "nat-0" });
      const namesOf = async () =>
        (await lab.egress(KEY)).status?.gateways?.map(({ name }) => name)
          .join();
      await eventually(
        "two gateways",
        async () => await namesOf() === "nat-1,nat-2",
      );
      const sources = (expected: string) =>
        eventually(
          `sources ${expected}`,
          async () =>
            (await lab.egress(KEY)).status?.sources?.join() === expected,
        );
      await sources("");
      const where = { node: "node1", since: "2026-01-02T03:04:05Z" };
      await lab.reportGateway(KEY, {
        name: "nat-2",
        addresses: ["10.2.0.9", "fd02::9"],
        ...where,
      });
      await lab.reportGateway(KEY, { name: "nat-1", addresses: ["10.2.0.8"] });
      await sources("10.2.0.8,10.2.0.9,fd02::9");
      assert.match(
        await lab.plane.kubectl(
          ...["-n", "internet", "get", "egress", "nat", "-o", "wide"],
        ),
        /SOURCES.*\n.*\["10.2.0.8","10.2.0.9","fd02::9"\]/,
      );
      await lab.plane.kubectl(
        "-n",
        "internet",
        "delete",
        "pod/nat-2",
        "--force",
      );
      await eventually("one gateway", async () => await namesOf() === "nat-1");
      await sources("10.2.0.8");
    },
  );

  await t.step("clients are counted", async () => {
    const count = (clients: number) =>
      eventually(
        `${clients} clients`,
        async () => (await lab.egress(KEY)).status?.clients === clients,
      );
    await count(0);
    await lab.createClient(KEY, "one");
    await lab.createClient(KEY, "two");
    await count(2);
    await lab.plane.kubectl(
      ...["-n", "internet", "delete", "pod/one", "--force"],
    );
    await count(1);
  });

  await t.step("a pod that has failed is no gateway any more", async () => {
    await lab.createPod(KEY, "nat-3");
    await lab.reportGateway(KEY, { name: "nat-3", unlimited: true });
    await lab.awaitCondition(
      KEY,
      "ClientsLimited",
      "False NotSupportedByKernel",
    );
    assert.equal((await lab.egress(KEY)).status?.gateways?.length, 2);
    await lab.plane.request(
      "PATCH",
      "/api/v1/namespaces/internet/pods/nat-3/status",
      { status: { phase: "Failed" } },
      { contentType: "application/merge-patch+json" },
    );
    await eventually(
      "one gateway",
      async () => (await lab.egress(KEY)).status?.gateways?.length === 1,
    );
  });

  await t.step("exhaustion ahead is told, and its end", async () => {
    const gateway = { name: "nat-1" };
    await lab.reportGateway(KEY, {
      ...gateway,
      conntrackPercent: 85,
      largestClient: "apps/web",
    });
    const { message } = await lab.awaitCondition(
      KEY,
      "CapacityLow",
      "True ConntrackFull",
    );
    assert.equal(
      message,
      "nat-1 uses 85% of its connection table, the most for apps/web. Raise spec.replicas above 2: each replica has its own connections and source ports",
    );
    await lab.reportGateway(KEY, {
      ...gateway,
      snatPortsPercent: 90,
      snatPortsDestination: "203.0.113.9:443",
      snatPortsClient: "apps/crawler",
    });
    const ports = await lab.awaitCondition(
      KEY,
      "CapacityLow",
      "True SourcePortsUsed",
    );
    assert.match(
      ports.message,
      /^nat-1 uses 90% of its source ports to 203\.0\.113\.9:443, the most for apps\/crawler\./,
    );
    await lab.reportGateway(KEY, { ...gateway, snatPortsPercent: 20 });
    await lab.awaitCondition(KEY, "CapacityLow", "False Sufficient");
    await lab.awaitEvents(
      KEY,
      "Warning CapacityLow",
      "Normal CapacityRestored",
    );
  });

  await t.step(
    "a client that has its share is named, and its end told",
    async () => {
      const gateway = { name: "nat-1" };
      await lab.reportGateway(KEY, {
        ...gateway,
        limitedClients: ["team/crawler"],
      });
      const { message } = await lab.awaitCondition(
        KEY,
        "ClientsLimited",
        "True MaxFlowsPerClient",
      );
      assert.match(message, /^nat-1 dropped connections of team\/crawler: /);
      await lab.awaitEvents(KEY, "Warning ClientsLimited");
      await lab.reportGateway(KEY, { ...gateway, unlimited: true });
      await lab.awaitCondition(
        KEY,
        "ClientsLimited",
        "False NotSupportedByKernel",
      );
      await lab.reportGateway(KEY, gateway);
      await eventually(
        "no such condition",
        async () =>
          !(await lab.egress(KEY)).status?.conditions?.some(({ type }) =>
            type === "ClientsLimited"
          ),
      );
    },
  );

  await t.step(
    "a gateway that nodes have lost is named until it answers them again",
    async () => {
      const [lost, other] = ["nat-1", "nat-4"];
      await lab.createPod(KEY, other);
      const loss = {
        address: "10.2.0.1",
        since: "2026-01-02T03:04:05Z",
        endedConnections: 7,
      };
      const report = (nodeNames: readonly string[]) =>
        lab.reportGateway(KEY, {
          name: other,
          addresses: ["10.2.0.2"],
          losses: [{ ...loss, nodes: nodeNames.length, nodeNames }],
        });
      await lab.reportGateway(KEY, {
        name: lost,
        node: "w1",
        addresses: [loss.address],
      });
      await report(["n1"]);
      const type = "GatewaysLost";
      const { message } = await lab.awaitCondition(KEY, type, "True NoAnswer");
      assert.match(message, /^nat-1 on node w1 does not answer node n1: /);
      assert.deepEqual((await lab.egress(KEY)).status?.lostGateways, [lost]);
      await report([]);
      await lab.awaitEvents(
        KEY,
        "Warning GatewayLost",
        "Normal GatewayBack",
      );
      const { status } = await lab.egress(KEY);
      assert.equal(status?.lostGateways, undefined);
      assert.ok(!status?.conditions?.some((each) => each.type === type));
    },
  );

  await t.step(
    "a node that translates a gateway's source is named as long as it does",
    async () => {
      const translation = {
        address: "10.2.0.1",
        seenAs: "192.0.2.1",
        destination: "203.0.113.9",
      };
      const report = (translated: readonly EgressTranslation[]) =>
        lab.reportGateway(KEY, {
          name: "nat-1",
          node: "w1",
          addresses: [translation.address],
          ...translated.length > 0 && { translated },
        });
      await report([translation]);
      const type = "SourcesTranslated";
      const { message } = await lab.awaitCondition(
        KEY,
        type,
        "True NodeMasquerades",
      );
      assert.match(
        message,
        /^packets of nat-1 on node w1 leave the node as 192\.0\.2\.1, not as 10\.2\.0\.1 /,
      );
      await lab.awaitEvents(KEY, "Warning SourcesTranslated");
      await report([]);
      await eventually(
        "the end of it",
        async () => await lab.condition(KEY, type) === undefined,
      );
    },
  );

  await t.step(
    "a template that no pod can have is told; other Egresses go on",
    async () => {
      await lab.change(
        KEY,
        podsOf([{
          name: "egress",
          volumeMounts: [{ name: "x", mountPath: "/x" }],
        }]),
      );
      const { message } = await lab.awaitCondition(
        KEY,
        "Degraded",
        "True DeploymentRefused",
      );
      assert.match(message, /volumeMounts\[0\]\.name: Not found: "x"/);
      await lab.awaitEvents(KEY, "Warning DeploymentRefused");
      // What serves goes on serving.
      await lab.awaitCondition(KEY, "Ready", "True GatewayAvailable");
      await lab.create("corp/vpn");
      await lab.awaitDeployment("corp/vpn", "exists");
      await lab.change(KEY, podsOf([{ name: "egress", nonsense: true }]));
      await eventually("the new message", async () => {
        const degraded = await lab.condition(KEY, "Degraded");
        return /nonsense: field not declared/.test(degraded?.message ?? "");
      });
      await lab.change(KEY, { template: null });
      await eventually(
        "the end of it",
        async () => (await lab.condition(KEY, "Degraded"))?.status === "False",
      );
    },
  );

  await t.step("objects of others with its name are not taken", async () => {
    await lab.plane.kubectl(
      ...["-n", "corp", "create", "deployment", "taken", "--image=x"],
    );
    await lab.plane.kubectl(
      ...["-n", "corp", "create", "service", "clusterip", "taken", "--tcp=80"],
    );
    const before = await lab.deployment("corp/taken");
    await lab.create("corp/taken");
    const { message } = await lab.awaitCondition(
      "corp/taken",
      "Degraded",
      "True NameTaken",
    );
    assert.match(message, /Deployment "corp\/taken": it was not made by Coil/);
    assert.match(message, /Service "corp\/taken": it was not made by Coil/);
    await lab.awaitCondition("corp/taken", "Ready", "False NameTaken");
    assert.deepEqual(await lab.deployment("corp/taken"), before);
    await lab.plane.kubectl(
      ...["-n", "corp", "delete", "deployment/taken", "service/taken"],
    );
    await lab.awaitDeployment(
      "corp/taken",
      "made by the controller",
      ({ metadata }) => metadata.ownerReferences?.[0]?.kind === "Egress",
    );
  });

  await t.step(
    "an object that is changed in between is applied all the same",
    async () => {
      const touch = async () => {
        for (let i = 0; i < 20; i++) {
          await lab.plane.kubectl(
            ...["-n", "internet", "annotate", "--overwrite", "deployment/nat"],
            `touched=${i}`,
          );
        }
      };
      const change = async () => {
        for (let replicas = 3; replicas < 13; replicas++) {
          await lab.change(KEY, { replicas });
          await sleep(50);
        }
      };
      await Promise.all([touch(), change()]);
      const { metadata } = await lab.awaitDeployment(
        KEY,
        "12 replicas",
        ({ spec }) => spec.replicas === 12,
      );
      assert.equal(metadata.annotations?.["touched"], "19");
    },
  );

  await t.step("destinations that come to the same are told", async () => {
    await lab.change(KEY, { destinations: ["10.0.0.1/8", "10.0.0.0/8"] });
    const { message } = await lab.awaitCondition(
      KEY,
      "RedundantDestinations",
      "True SameNetwork",
    );
    assert.equal(
      message,
      "10.0.0.1/8 has host bits and means 10.0.0.0/8; 10.0.0.0/8 is duplicated",
    );
    await lab.change(KEY, { destinations: ["10.0.0.0/8"] });
    await eventually(
      "the end of it",
      async () =>
        await lab.condition(KEY, "RedundantDestinations") === undefined,
    );
  });
});

Deno.test("without an image the controller says so in the Egresses that need one", async () => {
  await using lab = await EgressLab.start("ctlimage", ["internet"]);
  await using _controller = lab.startController();
  await lab.create(
    "internet/own",
    podsOf([{ name: "egress", image: IMAGE }]),
  );
  await lab.create(KEY);
  await lab.awaitDeployment("internet/own", "exists");
  const { message } = await lab.awaitCondition(
    KEY,
    "Degraded",
    "True UnknownImage",
  );
  assert.match(message, /--egress-image/);
  await lab.awaitCondition(KEY, "Ready", "False UnknownImage");
});

Deno.test("with Kubernetes' own controllers: pods are counted, and everything goes with its Egress", async (t) => {
  await using lab = await EgressLab.start("ctlkcm", ["internet"], {
    controllerManager: true,
  });
  await using _controller = lab.startController(`--egress-image=${IMAGE}`);

  await t.step(
    "the Deployment makes pods, which nobody schedules",
    async () => {
      await lab.create(KEY, {
        replicas: 2,
        podDisruptionBudget: { minAvailable: 1 },
      });
      await eventually("2 pods", async () => {
        const { status } = await lab.egress(KEY);
        return status?.replicas === 2 && status.availableReplicas === 0;
      });
      await lab.awaitCondition(KEY, "Progressing", "True RollingOut");
      const pods = await lab.plane.kubectl(
        ...["-n", "internet", "get", "pods", "-o", "name"],
        ...["-l", (await lab.egress(KEY)).status?.selector ?? ""],
      );
      assert.equal(pods.trim().split("\n").length, 2);
    },
  );

  await t.step("a quota that allows no pod is told", async () => {
    await lab.plane.kubectl(
      ...["-n", "internet", "create", "quota", "none", "--hard=pods=2"],
    );
    // Its pods are counted before it refuses one, and it is in force before.
    await eventually("the quota", async () => {
      const path = "/api/v1/namespaces/internet/pods?dryRun=All";
      const probe = lab.plane.request("POST", path, {
        metadata: { name: "probe" },
        spec: { containers: [{ name: "c", image: "none" }] },
      });
      return /exceeded quota/.test(await probe.then(() => "", String));
    });
    await lab.change(KEY, { replicas: 3 });
    const { message } = await eventually("the failure", async () => {
      const condition = await lab.condition(KEY, "Degraded");
      return condition?.reason === "FailedCreate" && condition;
    });
    assert.match(message, /exceeded quota/);
  });

  await t.step("the Egress takes all with it", async () => {
    await lab.plane.request("POST", "/api/v1/namespaces/default/pods", {
      metadata: {
        name: "client",
        annotations: { "egress.coil.cybozu.com/internet": "nat" },
      },
      spec: { nodeName: "node1", containers: [{ name: "c", image: "none" }] },
    });
    const slices = async () => {
      const path = `${COIL_API}/namespaces/internet/egressclientslices`;
      const list = await lab.plane.request("GET", path);
      return (list as { items: { clients?: unknown[] }[] }).items;
    };
    await eventually("the client in a slice", async () => {
      return (await slices()).some(({ clients = [] }) => clients.length === 1);
    });
    await lab.delete(KEY);
    await eventually(
      "the end of the slices",
      async () => (await slices()).length === 0,
    );
    for (
      const [api, plural] of [
        ["/apis/apps/v1", "deployments"],
        ["/api/v1", "services"],
        ["/apis/policy/v1", "poddisruptionbudgets"],
      ] as const
    ) {
      await eventually(
        `the end of the ${plural}`,
        async () => !await lab.exists(api, plural, KEY),
      );
    }
    await eventually(
      "no subject",
      async () => (await lab.subjectsOf("coil-egress")).length === 0,
    );
  });

  await t.step(
    "a namespace that is deleted is left in peace, and its subject goes",
    async () => {
      await lab.create(KEY);
      await lab.awaitDeployment(KEY, "exists");
      await lab.plane.kubectl("delete", "namespace", "internet");
      await eventually(
        "no subject",
        async () => (await lab.subjectsOf("coil-egress")).length === 0,
      );
    },
  );
});

Deno.test("coil-controller starts no gateway whose clients it cannot write", async () => {
  await using lab = await EgressLab.start("ctlclients", ["internet"]);
  const { plane } = lab;
  const policy = {
    apiVersion: "admissionregistration.k8s.io/v1",
    metadata: { name: "no-slices" },
  };
  await plane.apply(
    {
      ...policy,
      kind: "ValidatingAdmissionPolicy",
      spec: {
        failurePolicy: "Fail",
        matchConstraints: {
          resourceRules: [{
            apiGroups: ["coil.cybozu.com"],
            apiVersions: ["v2"],
            operations: ["CREATE"],
            resources: ["egressclientslices"],
          }],
        },
        validations: [{ expression: "false", message: "no slices here" }],
      },
    },
    {
      ...policy,
      kind: "ValidatingAdmissionPolicyBinding",
      spec: { policyName: "no-slices", validationActions: ["Deny"] },
    },
  );
  const slices = `${COIL_API}/namespaces/internet/egressclientslices`;
  await eventually(
    "the policy",
    () =>
      plane.request("POST", `${slices}?dryRun=All`, {
        apiVersion: "coil.cybozu.com/v2",
        kind: "EgressClientSlice",
        metadata: { name: "probe" },
      }).then(() => false, (error) => /no slices here/.test(`${error}`)),
  );
  await plane.request("POST", "/api/v1/namespaces/default/pods", {
    metadata: {
      name: "client",
      annotations: { "egress.coil.cybozu.com/internet": "nat" },
    },
    spec: { nodeName: "node1", containers: [{ name: "c", image: "none" }] },
  });
  // A controller that does not know it has nothing to write.
  await untilInMemory(plane, "/api/v1/pods");
  await using _controller = lab.startController(`--egress-image=${IMAGE}`);
  await lab.create(KEY);
  const status = "True EgressClientSliceRefused";
  await lab.awaitCondition(KEY, "Degraded", status);
  assert.match(
    (await lab.condition(KEY, "Degraded"))?.message ?? "",
    /no slices here/,
  );
  await eventually("the Service", () => lab.exists("/api/v1", "services", KEY));
  assert.ok(!await lab.exists("/apis/apps/v1", "deployments", KEY));
  await plane.kubectl(
    ...["delete", "validatingadmissionpolicybinding", "no-slices"],
  );
  // Tried again after a minute at most; sooner when the Egress changes.
  await lab.change(KEY, { replicas: 2 });
  await lab.awaitDeployment(KEY, "2 replicas", (d) => d.spec?.replicas === 2);
});
