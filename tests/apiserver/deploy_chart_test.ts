// The chart and the overlays install the same.
import assert from "node:assert/strict";
import { parse } from "yaml";
import { VERSION } from "../../lib/names/mod.ts";
import { ensureHelm } from "../lab/helm.ts";
import { CommandError, run } from "../lab/mod.ts";
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
  const ours = parseManifests(await kustomize("monitoring"));
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

for (
  const [value, message] of [
    ["imagee=x", "additional properties 'imagee' not allowed"],
    ["image.pullPolicy=Now", "value must be one of"],
    ["controller.replicas=-1", "/controller/replicas"],
    ["coild.extraArgs[0]=pod-gateway", "does not match pattern"],
    ["coild.maxUnavailable=0%", "/coild/maxUnavailable"],
    ["coild.runDir=run", "/coild/runDir"],
    ["ipam.enabled=false,egress.enabled=false", "anyOf"],
  ] as const
) {
  Deno.test(`the chart's schema refuses ${value}`, async () => {
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
