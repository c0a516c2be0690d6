// The chart and the overlays install the same.
import assert from "node:assert/strict";
import * as path from "node:path";
import { parse } from "yaml";
import { VERSION } from "../../lib/names/mod.ts";
import { ensureHelm } from "../lab/helm.ts";
import { CommandError, ControlPlane, run } from "../lab/mod.ts";
import {
  DEPLOY,
  helmTemplate,
  kustomize,
  parseManifests,
  withoutChartMarks,
} from "./deploy_render.ts";

const PAIRS: readonly (readonly [
  directory: string,
  values: readonly string[],
])[] = [
  ["overlays/default", []],
  ["overlays/ipam", ["egress.enabled=false"]],
  ["overlays/egress-only", ["ipam.enabled=false"]],
  ["overlays/router", ["router.enabled=true"]],
  ["overlays/coordinator", ["coordinator.enabled=true"]],
  ["overlays/vpc", ["addresses=vpc"]],
  [
    "overlays/coordinator-only",
    ["coordinator.enabled=true", "ipam.enabled=false", "egress.enabled=false"],
  ],
];

const set = (values: readonly string[]) =>
  values.flatMap((value) => ["--set", value]);

for (const [directory, values] of PAIRS) {
  Deno.test(`the chart with ${values.join() || "its defaults"} is deploy/${directory}`, async () => {
    const ours = parseManifests(await kustomize(directory));
    const chart = withoutChartMarks(
      parseManifests(await helmTemplate(set(values))),
    );
    assert.ok(ours.size > 20, `${ours.size} objects`);
    assert.deepEqual([...chart.keys()].sort(), [...ours.keys()].sort());
    for (const [key, object] of ours) {
      assert.deepEqual(chart.get(key), object, key);
    }
  });
}

Deno.test("the chart's monitoring is deploy/monitoring", async () => {
  const all = parseManifests(await kustomize("monitoring"));
  // The chart has no halves of the controller, as the overlay compat has.
  const isHalf = /^Service\/coil-(ipam|egress)-controller-/;
  const ours = new Map([...all].filter(([key]) => !isHalf.test(key)));
  const chart = withoutChartMarks(parseManifests(
    await helmTemplate([
      "--show-only=templates/monitoring.yaml",
      ...set([
        "router.enabled=true",
        ...["serviceMonitor", "prometheusRule", "dashboard"].map((what) =>
          `monitoring.${what}.enabled=true`
        ),
      ]),
    ]),
  ));
  for (const [key, object] of ours) {
    assert.deepEqual(chart.get(key), object, key);
  }
  assert.equal(chart.size, ours.size);
});

Deno.test("the chart's alerts link to the runbooks' address", async () => {
  const text = await helmTemplate([
    "--show-only=templates/monitoring.yaml",
    ...set([
      "monitoring.prometheusRule.enabled=true",
      "monitoring.prometheusRule.runbooks=https://wiki.test/coil/",
    ]),
  ]);
  assert.match(text, /runbook_url: https:\/\/wiki\.test\/coil\/Coil\w+\.md/);
  assert.doesNotMatch(text, /coil\.example/);
});

Deno.test("in another namespace, nothing of the chart's is left in kube-system", async () => {
  const text = await helmTemplate(["--namespace", "coil-system"]);
  const rendered = parseManifests(text);
  for (const [key, { metadata }] of rendered) {
    assert.ok([undefined, "coil-system"].includes(metadata.namespace), key);
  }
  assert.equal(text.match(/kube-system/g), null);
  const controller = rendered.get("Deployment/coil-controller");
  assert.deepEqual(
    controller?.spec?.template?.spec.containers[0]?.args,
    ["--lease-namespace=coil-system"],
  );
});

Deno.test("in another namespace, the rights of the coordinator in kube-system stay there", async () => {
  const rendered = parseManifests(
    await helmTemplate([
      ...["--namespace", "coil-system"],
      ...set(["coordinator.enabled=true", "coordinator.crd=false"]),
    ]),
  );
  const there = [...rendered].filter(([, { metadata }]) =>
    metadata.namespace === "kube-system"
  );
  assert.deepEqual(there.map(([key]) => key).sort(), [
    "Role/coil-controller-networks",
    "RoleBinding/coil-controller-networks",
  ]);
  const subjects = JSON.stringify(there).match(/"coil-system"/g);
  assert.equal(subjects?.length, 1);
  assert.ok(rendered.has("Role/coil-controller-coordinator"));
  const crd =
    "CustomResourceDefinition/spidercoordinators.spiderpool.spidernet.io";
  assert.equal(rendered.has(crd), false);
});

Deno.test("the chart's values reach the workloads", async () => {
  const rendered = parseManifests(
    await helmTemplate(set([
      "image.repository=registry.example.com/coil",
      `image.digest=sha256:${"0".repeat(64)}`,
      "coild.hostPID=true",
      "coild.extraArgs={--pod-gateway=node-address}",
      "apiServer.host=10.0.0.1",
      "apiServer.port=6443",
      "cni.portmap=false",
      "imagePullSecrets[0].name=pull",
    ])),
  );
  const pod = rendered.get("DaemonSet/coild")?.spec?.template?.spec;
  const [coild] = pod?.containers ?? [];
  assert.equal(
    coild?.image,
    `registry.example.com/coil@sha256:${"0".repeat(64)}`,
  );
  assert.deepEqual(coild?.args, [
    "--socket=/run/coil/coild.sock",
    "--pod-gateway=node-address",
  ]);
  assert.deepEqual(coild?.securityContext.capabilities.add, [
    "NET_ADMIN",
    "SYS_ADMIN",
    "SYS_PTRACE",
  ]);
  assert.deepEqual((coild as unknown as { env: unknown[] }).env.slice(1), [
    { name: "KUBERNETES_SERVICE_HOST", value: "10.0.0.1" },
    { name: "KUBERNETES_SERVICE_PORT", value: "6443" },
  ]);
  assert.deepEqual(
    (pod as unknown as { imagePullSecrets: unknown }).imagePullSecrets,
    [{ name: "pull" }],
  );
  const netconf = JSON.parse(
    rendered.get("ConfigMap/coil-config")?.data?.["cni_netconf"] ?? "",
  );
  assert.deepEqual(
    netconf.plugins.map(({ type }: { type: string }) => type),
    ["coil"],
  );
});

Deno.test("another name of the cluster starts the daemons again", async () => {
  const marks = async (name: string) => {
    const values = ["addresses=vpc", `vpc.clusterName=${name}`];
    const rendered = parseManifests(await helmTemplate(set(values)));
    assert.deepEqual(rendered.get("ConfigMap/coil-vpc")?.data, {
      "cluster-name": name,
    });
    return ["DaemonSet/coild", "Deployment/coil-controller"].map((key) => {
      const { metadata } = rendered.get(key)?.spec?.template ?? {};
      return metadata?.annotations?.["checksum/config"] ?? "";
    });
  };
  const [before, after] = [await marks("1e3"), await marks("prod")];
  assert.deepEqual(before.map((mark, i) => mark === after[i]), [false, false]);
});

Deno.test("the chart's values for pods are added to what it sets", async () => {
  const values = ["coild", "controller", "router"].flatMap((workload) => [
    `${workload}.podLabels.team=net`,
    `${workload}.securityContext.seLinuxOptions.level=s0`,
    `${workload}.appArmorProfile.type=Unconfined`,
  ]);
  const given = parseManifests(
    await helmTemplate(set([...values, "router.enabled=true"])),
  );
  const plain = parseManifests(
    await helmTemplate(set(["router.enabled=true"])),
  );
  for (
    const key of [
      "DaemonSet/coild",
      "Deployment/coil-controller",
      "DaemonSet/coil-router",
    ]
  ) {
    const [now, before] = [given, plain].map((rendered) =>
      rendered.get(key)?.spec?.template
    );
    assert.deepEqual(now?.metadata.labels, {
      ...before?.metadata.labels,
      team: "net",
    }, key);
    assert.deepEqual(now?.spec.securityContext, {
      ...before?.spec.securityContext,
      seLinuxOptions: { level: "s0" },
      appArmorProfile: { type: "Unconfined" },
    }, key);
  }
});

const POOLS = set([
  "pools[0].name=default",
  "pools[0].blockSizeBits=6",
  "pools[0].subnets[0].ipv4=10.100.0.0/16",
]);

Deno.test("the chart's pools come with the upgrade after the first installation, as its notes say", async () => {
  await using plane = await ControlPlane.start({ name: "chartpools" });
  const home = path.join(plane.runDir, "helm");
  const env = {
    KUBECONFIG: plane.kubeconfig,
    HELM_CACHE_HOME: home,
    HELM_CONFIG_HOME: home,
    HELM_DATA_HOME: home,
  };
  const program = await ensureHelm();
  const helm = (command: string, ...args: readonly string[]) =>
    run(program, [
      ...[command, "coil", `${DEPLOY}chart`, "--namespace", "kube-system"],
      ...args,
    ], { env });
  const notes = await helm("install", ...POOLS);
  assert.match(notes, /Run the same once more as "helm upgrade"/);
  await plane.definitionsEstablished();
  const upgraded = await helm("upgrade", "--reuse-values");
  assert.doesNotMatch(upgraded, /once more|Pods start when/);
  const pool = JSON.parse(
    await plane.kubectl("get", "addresspool", "default", "-o=json"),
  );
  assert.deepEqual(pool.spec, {
    blockSizeBits: 6,
    subnets: [{ ipv4: "10.100.0.0/16" }],
  });
  const emptied = await helm("upgrade", "--set-json=pools=[]");
  assert.match(emptied, /Pods start when the address pool "default" exists/);
  await plane.kubectl("get", "addresspool", "default");
});

for (
  const [value, message] of [
    ["imagee=x", "additional properties 'imagee' not allowed"],
    ["image.pullPolicy=Now", "value must be one of"],
    ["controller.replicas=-1", "/controller/replicas"],
    ["coild.extraArgs[0]=pod-gateway", "does not match pattern"],
    ["coild.maxUnavailable=0%", "/coild/maxUnavailable"],
    ["coild.runDir=run", "/coild/runDir"],
    ["ipam.enabled=false,egress.enabled=false", "so there is nothing to do"],
    ["addresses=eni", "value must be one of"],
    ["addresses=vpc,vpc.clusterName=*", "/vpc/clusterName"],
    ["addresses=vpc,ipam.enabled=false", "ipam.enabled must be true"],
    ["addresses=vpc,egress.enabled=false", "vpc.clusterName must be set"],
    [
      "addresses=vpc,pools[0].name=default,pools[0].subnets[0].ipv4=10.0.0.0/8",
      "pools must be empty",
    ],
    [
      "addresses=vpc,coild.extraArgs={--cluster-name=x}",
      "which the chart sets",
    ],
    [
      "ipam.enabled=false,egress.enabled=false,coordinator.enabled=true,coild.runDir=/run/other",
      "coild.runDir must be /run/coil",
    ],
    ["coild.extraArgs={--socket=/x}", "which the chart sets by other values"],
    ["coild.extraArgs={--enable-coordinator}", "which the chart sets"],
    ["coordinator.crds=false", "additional properties 'crds' not allowed"],
    ["controller.extraArgs={--gc-interval=1h,--gc-interval=2h}", "twice"],
    ["router.enabled=true,router.extraArgs={--a=1,--a=2}", "twice"],
    ["cni.netconf=coil", "cni.netconf is not a JSON object"],
    ["cni.netconf=\\{\\}", "cni.netconf has no plugin of type coil"],
    ["coild.podLabels.app\\.kubernetes\\.io/name=x", "propertyName"],
    [
      "controller.appArmorProfile.type=None",
      "/controller/appArmorProfile/type",
    ],
    ["pools[0].name=default", "missing property 'subnets'"],
  ] as const
) {
  Deno.test(`the chart refuses ${value}`, async () => {
    await assert.rejects(
      helmTemplate(["--set", value]),
      (error) =>
        error instanceof CommandError && error.message.includes(message),
    );
  });
}

Deno.test("helm lint and helm package find nothing wrong", async () => {
  const directory = await Deno.makeTempDir();
  try {
    const helm = await ensureHelm();
    const output = await run(helm, ["lint", "--strict", `${DEPLOY}chart`]);
    assert.match(output, /0 chart\(s\) failed/);
    await run(helm, ["package", `${DEPLOY}chart`, "-d", directory]);
    const packed = `${directory}/coil-${VERSION}.tgz`;
    const fromPackage = await run(helm, [
      ...["template", "coil", packed, "-n", "kube-system"],
    ]);
    // Links to files outside of the chart have become files in the package.
    assert.equal(fromPackage, await helmTemplate());
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
});

Deno.test("the chart has Coil's version", async () => {
  const chart = parse(await Deno.readTextFile(`${DEPLOY}chart/Chart.yaml`));
  assert.equal(chart.version, VERSION);
  assert.equal(chart.appVersion, VERSION);
});
