import assert from "node:assert/strict";
import { stringify } from "yaml";
import type {
  Egress,
  EgressSpec,
  EgressStrategy,
} from "../../../lib/api/mod.ts";
import type { Container } from "./container.ts";
import { planDeployment, type PodSpec } from "./deployment.ts";
import {
  type GatewaySettings,
  planDisruptionBudget,
  planService,
} from "./plan.ts";
import { InvalidTemplateError } from "./template.ts";

const SETTINGS: GatewaySettings = {
  port: 5555,
  backend: "nftables",
  drainTimeoutMs: 300_000,
  systemNamespace: "kube-system",
  leaseNamespace: "kube-system",
};

const IMAGE = "example.com/coil:1";

function egress(spec: Omit<EgressSpec, "destinations"> = {}): Egress {
  return {
    apiVersion: "coil.cybozu.com/v2",
    kind: "Egress",
    metadata: { namespace: "internet", name: "nat", uid: "uid-1" },
    spec: { destinations: ["0.0.0.0/0"], ...spec },
  };
}

/** The containers of the pods of an Egress whose template has these. */
function containersOf(
  containers: readonly Container[],
  settings: Partial<GatewaySettings> = {},
): readonly Container[] {
  const wanted = egress({
    template: { spec: { containers: [...containers] } },
  });
  return planDeployment(wanted, {
    settings: { ...SETTINGS, ...settings },
    image: IMAGE,
  }).spec.template.spec.containers;
}

function gatewayOf(
  container: Partial<Container>,
  settings: Partial<GatewaySettings> = {},
): Container {
  const [gateway] = containersOf([{ name: "egress", ...container }], settings);
  assert.ok(gateway);
  return gateway;
}

const FULL: Omit<EgressSpec, "destinations"> = {
  replicas: 3,
  strategy: {
    type: "RollingUpdate",
    rollingUpdate: { maxSurge: 3, maxUnavailable: 2 },
  },
  template: {
    metadata: {
      annotations: { "example.com/a": "some text" },
      labels: { team: "net", "app.kubernetes.io/name": "mine" },
    },
    spec: {
      schedulerName: "mine",
      terminationGracePeriodSeconds: 900,
      volumes: [{ name: "spool", emptyDir: {} }],
      containers: [
        { name: "sidecar", image: "example.com/sidecar:1" },
        {
          name: "egress",
          image: "example.com/other:2",
          env: [
            { name: "LEVEL", value: "1" },
            { name: "LEVEL", value: "2" },
            { name: "COIL_EGRESS_NAME", value: "other" },
          ],
          resources: { requests: { cpu: "2" }, limits: { cpu: "2" } },
        },
      ],
    },
  },
  sessionAffinityConfig: { clientIP: { timeoutSeconds: 100 } },
  fouSourcePortAuto: true,
  podDisruptionBudget: { minAvailable: 1 },
};

for (const [name, spec] of [["minimal", {}], ["full", FULL]] as const) {
  Deno.test(`the objects of the ${name} Egress are as in the golden file`, async () => {
    const wanted = egress(spec);
    const objects = {
      deployment: planDeployment(wanted, { settings: SETTINGS, image: IMAGE }),
      service: planService(wanted, SETTINGS),
      podDisruptionBudget: planDisruptionBudget(wanted) ?? "none",
    };
    await assertGolden(
      name,
      stringify(objects, { aliasDuplicateObjects: false }),
    );
  });
}

Deno.test("W24: another port reaches the gateways and the Service alike", () => {
  const { args = [] } = gatewayOf({}, { port: 5678 });
  assert.ok(args.includes("--fou-port=5678"), args.join());
  const { ports } = planService(egress(), { port: 5678 }).spec;
  assert.deepEqual(ports, [{ port: 5678, targetPort: 5678, protocol: "UDP" }]);
});

Deno.test("CT-25: the backend is passed on", () => {
  for (const backend of ["iptables", "nftables"] as const) {
    const { args = [] } = gatewayOf({}, { backend });
    assert.ok(args.includes(`--backend=${backend}`), args.join());
  }
});

Deno.test("the drain time is passed on, and the pod gets 30 s more", () => {
  const { spec } = planDeployment(egress(), {
    settings: { ...SETTINGS, drainTimeoutMs: 90_500 },
    image: IMAGE,
  }).spec.template;
  assert.equal(spec.terminationGracePeriodSeconds, 121);
  assert.ok(spec.containers[0]?.args?.includes("--drain-timeout=1m30.5s"));
});

Deno.test("the namespace of coild is passed on when it is not the usual one", () => {
  const { args = [] } = gatewayOf({}, { systemNamespace: "coil-system" });
  assert.ok(
    args.includes("--announce-user=system:serviceaccount:coil-system:coild"),
    args.join(),
  );
});

Deno.test("the namespace of the leases is passed on when it is not the usual one", () => {
  const { args = [] } = gatewayOf({}, { leaseNamespace: "coil-system" });
  assert.ok(args.includes("--lease-namespace=coil-system"), args.join());
});

Deno.test("W25: variables of the template come once each, and ours are ours", () => {
  const { env = [] } = gatewayOf({
    env: [
      { name: "A", value: "1" },
      { name: "COIL_POD_NAMESPACE", value: "x" },
      { name: "A", value: "2" },
    ],
  });
  assert.deepEqual(env.map(({ name, value }) => [name, value]), [
    ["A", "2"],
    ["COIL_POD_NAMESPACE", "internet"],
    ["COIL_EGRESS_NAME", "nat"],
    ["COIL_POD_ADDRESSES", undefined],
    ["COIL_POD_NAME", undefined],
    ["COIL_NODE_NAME", undefined],
  ]);
});

Deno.test("command and arguments of the template are kept, empty ones are not", () => {
  const own = gatewayOf({ command: ["sh"], args: ["-c", "true"] });
  assert.deepEqual([own.command, own.args], [["sh"], ["-c", "true"]]);
  const empty = gatewayOf({ command: [], args: [], image: "" });
  assert.deepEqual(empty.command, ["coil-egress"]);
  assert.equal(empty.image, IMAGE);
});

Deno.test("volumes and mounts of the template take the place of ours", () => {
  const wanted = egress({
    template: {
      spec: {
        volumes: [
          { name: "run", emptyDir: { medium: "Memory" } },
          { name: "mine", emptyDir: {} },
        ],
        containers: [{
          name: "egress",
          volumeMounts: [{ name: "mine", mountPath: "/lib/modules" }],
        }],
      },
    },
  });
  const { spec } = planDeployment(wanted, { settings: SETTINGS, image: IMAGE })
    .spec.template;
  assert.deepEqual(spec.volumes?.map(({ name }) => name), [
    "run",
    "mine",
    "modules",
    "sysctl",
  ]);
  assert.deepEqual(spec.volumes?.[0]?.emptyDir, { medium: "Memory" });
  assert.deepEqual(
    spec.containers[0]?.volumeMounts?.map((m) => [m.name, m.mountPath]),
    [
      ["mine", "/lib/modules"],
      ["run", "/run"],
      ["sysctl", "/host/proc/sys/net"],
    ],
  );
});

Deno.test("a gateway requests 100m and 200Mi beside any limit, and no more than that", () => {
  const requestsOf = (resources: Container["resources"]) =>
    gatewayOf({ ...(resources !== undefined && { resources }) }).resources
      ?.requests;
  const ours = { cpu: "100m", memory: "200Mi" };
  assert.deepEqual(requestsOf(undefined), ours);
  assert.deepEqual(requestsOf({ limits: { cpu: "2", memory: "1Gi" } }), ours);
  assert.deepEqual(requestsOf({ limits: { memory: "200Mi" } }), ours);
  // A request above the limit would be refused; the API server makes the limit the request.
  assert.deepEqual(requestsOf({ limits: { cpu: "50m" } }), { memory: "200Mi" });
  assert.deepEqual(requestsOf({ limits: { memory: "150M" } }), { cpu: "100m" });
  assert.deepEqual(
    requestsOf({ requests: { memory: "1Gi" }, limits: { memory: "2Gi" } }),
    { cpu: "100m", memory: "1Gi" },
  );
});

Deno.test("W48: a gateway is root with one capability, and privileged only where its template says so", () => {
  const ours = {
    runAsUser: 0,
    runAsGroup: 0,
    seccompProfile: { type: "RuntimeDefault" },
    allowPrivilegeEscalation: false,
    privileged: false,
    readOnlyRootFilesystem: true,
    capabilities: { drop: ["ALL"], add: ["NET_ADMIN"] },
  };
  assert.deepEqual(gatewayOf({}).securityContext, ours);
  assert.deepEqual(
    gatewayOf({ securityContext: { privileged: true } }).securityContext,
    { ...ours, privileged: true, allowPrivilegeEscalation: true },
  );
  const own = gatewayOf({
    securityContext: {
      runAsUser: 1,
      readOnlyRootFilesystem: false,
      seccompProfile: { type: "Unconfined" },
      capabilities: { add: ["NET_RAW"], drop: ["CHOWN"] },
    },
  });
  assert.deepEqual(own.securityContext, {
    ...ours,
    runAsUser: 1,
    seccompProfile: { type: "Unconfined" },
    capabilities: { add: ["NET_RAW", "NET_ADMIN"], drop: ["CHOWN", "ALL"] },
  });
});

Deno.test("the defaults of a rolling update are said, so that another type takes them away", () => {
  const strategyOf = (strategy?: EgressStrategy) =>
    planDeployment(egress(strategy === undefined ? {} : { strategy }), {
      settings: SETTINGS,
      image: IMAGE,
    }).spec.strategy;
  const defaults = { maxSurge: "25%", maxUnavailable: "25%" };
  assert.deepEqual(strategyOf(), {
    type: "RollingUpdate",
    rollingUpdate: defaults,
  });
  assert.deepEqual(
    strategyOf({ type: "RollingUpdate", rollingUpdate: { maxSurge: 3 } }),
    { type: "RollingUpdate", rollingUpdate: { ...defaults, maxSurge: 3 } },
  );
  assert.deepEqual(strategyOf({ type: "Recreate" }), { type: "Recreate" });
});

Deno.test("a Service without affinity has no time-out of it", () => {
  const { spec } = planService(
    egress({
      sessionAffinity: "None",
      sessionAffinityConfig: { clientIP: { timeoutSeconds: 100 } },
    }),
    SETTINGS,
  );
  assert.equal(spec.sessionAffinity, "None");
  assert.equal(spec.sessionAffinityConfig, undefined);
});

Deno.test("a Service prefers the gateways that its Egress does", () => {
  const of = (spec: Partial<Egress["spec"]>) =>
    planService(egress(spec), SETTINGS).spec.trafficDistribution;
  assert.equal(of({ trafficDistribution: "PreferSameZone" }), "PreferSameZone");
  assert.equal(of({}), undefined);
});

/** What no pod may have, and what is said of it. */
const INVALID: readonly (readonly [spec: string, said: RegExp])[] = [
  ['{"volumes": "x"}', /spec\.volumes: it must be a list of objects, got "x"$/],
  [
    '{"terminationGracePeriodSeconds": "900"}',
    /spec\.terminationGracePeriodSeconds: it must be a number, got "900"$/,
  ],
  [
    '{"containers": [{"name": "egress", "command": "sh"}]}',
    /spec\.containers\[egress\]\.command: .*"sh"$/,
  ],
  [
    '{"containers": [{"name": "egress", "args": ["-v", 2]}]}',
    /containers\[egress\]\.args: .*2\]$/,
  ],
  [
    '{"containers": [{"name": "egress", "env": [1]}]}',
    /containers\[egress\]\.env: .*\[1\]$/,
  ],
  [
    '{"containers": [{"name": "egress", "securityContext": {"capabilities": {"add": "ALL"}}}]}',
    /capabilities\.add: it must be a list of texts, got "ALL"$/,
  ],
];

for (const [spec, said] of INVALID) {
  Deno.test(`a template with ${spec} is refused with the place`, () => {
    const wanted = egress({ template: { spec: JSON.parse(spec) } });
    assert.throws(
      () => planDeployment(wanted, { settings: SETTINGS, image: IMAGE }),
      (error) =>
        error instanceof InvalidTemplateError && said.test(error.message),
    );
  });
}

Deno.test("a template that makes gateways clients of an Egress is refused", () => {
  const plan = (annotations: Readonly<Record<string, string>>) =>
    planDeployment(egress({ template: { metadata: { annotations } } }), {
      settings: SETTINGS,
      image: IMAGE,
    }).spec.template.metadata.annotations;
  assert.throws(
    () => plan({ "egress.coil.cybozu.com/other": "nat" }),
    (error) =>
      error instanceof InvalidTemplateError &&
      /a gateway .* remove annotation "egress\.coil\.cybozu\.com\/other"$/
        .test(error.message),
  );
  // It names no Egress.
  const nothing = { "egress.coil.cybozu.com/other": " ", "a.example/b": "c" };
  assert.deepEqual(plan(nothing), nothing);
});

Deno.test("gateways are spread over nodes and zones, unless the template says how", () => {
  const spreadOf = (spread?: PodSpec["topologySpreadConstraints"]) => {
    const spec = {
      containers: [],
      ...(spread && { topologySpreadConstraints: spread }),
    };
    const wanted = egress({ template: { spec } });
    const plan = planDeployment(wanted, { settings: SETTINGS, image: IMAGE });
    const { labels } = plan.spec.template.metadata;
    return plan.spec.template.spec.topologySpreadConstraints?.map((c) => {
      const selected = Object.entries(c.labelSelector?.matchLabels ?? {});
      assert.ok(selected.every(([key, value]) => labels[key] === value));
      return `${c.topologyKey} ${c.maxSkew} ${c.whenUnsatisfiable}`;
    });
  };
  assert.deepEqual(spreadOf(), [
    "kubernetes.io/hostname 1 ScheduleAnyway",
    "topology.kubernetes.io/zone 1 ScheduleAnyway",
  ]);
  assert.deepEqual(spreadOf([]), []);
  const other = {
    maxSkew: 2,
    topologyKey: "rack",
    whenUnsatisfiable: "DoNotSchedule",
  };
  assert.deepEqual(spreadOf([other]), ["rack 2 DoNotSchedule"]);
});

Deno.test("null in a template is as if it were not there", () => {
  const plan = (spec: string) =>
    planDeployment(egress({ template: { spec: JSON.parse(spec) } }), {
      settings: SETTINGS,
      image: IMAGE,
    }).spec.template.spec;
  const nothing = '{"containers": [{"name": "egress"}]}';
  const nulls =
    `{"volumes": null, "terminationGracePeriodSeconds": null, "containers": [{
    "name": "egress", "image": null, "command": null, "args": null, "env": null,
    "volumeMounts": null, "securityContext": null, "resources": null}]}`;
  assert.deepEqual(plan(nulls), plan(nothing));
});

Deno.test("a gateway gets the limit of flows per client, if the Egress sets one", () => {
  const argsOf = (maxFlowsPerClient?: number) => {
    const wanted = egress({});
    const spec = {
      ...wanted.spec,
      ...(maxFlowsPerClient !== undefined && { maxFlowsPerClient }),
    };
    const planned = planDeployment({ ...wanted, spec }, {
      settings: SETTINGS,
      image: IMAGE,
    });
    return planned.spec.template.spec.containers[0]?.args
      ?.filter((arg) => arg.includes("flows"));
  };
  assert.deepEqual(argsOf(), []);
  assert.deepEqual(argsOf(0), ["--max-flows-per-client=0"]);
  assert.deepEqual(argsOf(700), ["--max-flows-per-client=700"]);
});

Deno.test("upstream's gateways know each flag they get, unless more is asked for", () => {
  const { args } = gatewayOf({ image: "ghcr.io/cybozu-go/coil:2.15.0" });
  assert.deepEqual(args, [
    "--zap-stacktrace-level=panic",
    "--fou-port=5555",
    "--backend=nftables",
  ]);
});

/** COIL_UPDATE_GOLDEN=1 rewrites the files, to be read in the diff. */
async function assertGolden(name: string, text: string): Promise<void> {
  const file = new URL(
    `../../../tests/golden/coil_controller/${name}.yaml`,
    import.meta.url,
  );
  if (Deno.env.get("COIL_UPDATE_GOLDEN") === "1") {
    await Deno.writeTextFile(file, text);
  }
  assert.equal(text, await Deno.readTextFile(file));
}
