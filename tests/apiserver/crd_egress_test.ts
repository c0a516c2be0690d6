import assert from "node:assert/strict";
import { startCoilPlane } from "../lab/mod.ts";
import { assertRefused, columnsOf, refusals } from "./crds.ts";

const PATH = "/namespaces/default/egresses";

const NO_CIDR = "invalid destination: it must be a CIDR such as";
const ANNOTATION = "invalid annotation: a key must be a qualified name";
const LABEL_KEY = "invalid label: a key must be a qualified name";
const LABEL_VALUE = "invalid label value: it must consist of letters";
const BUDGET = "it must be a number from 0 or a percentage from 0% to 100%";

interface Case {
  readonly name: string;
  /** Merged into a spec with one destination. */
  readonly spec: object;
  /** Part of each line expected, `field: message`; none: accepted. */
  readonly refused?: readonly string[];
}

const template = (metadata: object): object => ({ template: { metadata } });
const budget = (spec: object): object => ({ podDisruptionBudget: spec });

const CREATED: readonly Case[] = [
  {
    name: "WH-14: no destinations",
    spec: { destinations: [] },
    refused: ["spec.destinations: Invalid value: 0"],
  },
  {
    name: "WH-15: an address without a length",
    spec: { destinations: ["127.0.0.1"] },
    refused: [`spec.destinations[0]: Invalid value: "127.0.0.1": ${NO_CIDR}`],
  },
  {
    name: "WH-16: text that is no CIDR, in the second place",
    spec: { destinations: ["10.0.0.0/8", "a.b.c.d/20"] },
    refused: [`spec.destinations[1]: Invalid value: "a.b.c.d/20": ${NO_CIDR}`],
  },
  {
    name: "1024 destinations",
    spec: {
      destinations: Array.from({ length: 1024 }, (_, i) => `fd02::${i}/128`),
    },
  },
  {
    name: "1025 destinations",
    spec: {
      destinations: Array.from({ length: 1025 }, (_, i) => `fd02::${i}/128`),
    },
    refused: ["spec.destinations: Too many: 1025"],
  },
  {
    name: "WH-17: negative replicas",
    spec: { replicas: -1 },
    refused: ["spec.replicas: Invalid value: -1", ".spec.replicas: "],
  },
  {
    name: "no replicas",
    spec: { replicas: 0 },
    refused: ["spec.replicas: Invalid value: 0"],
  },
  {
    name: "WH-19: an unknown strategy",
    spec: { strategy: { type: "hoge" } },
    refused: ['spec.strategy.type: Unsupported value: "hoge"'],
  },
  {
    name: "a strategy without a type",
    spec: { strategy: {} },
    refused: ["spec.strategy.type: Required value"],
  },
  { name: "WH-20: Recreate", spec: { strategy: { type: "Recreate" } } },
  {
    name: "RollingUpdate with a number and a percentage",
    spec: {
      strategy: {
        type: "RollingUpdate",
        rollingUpdate: { maxSurge: 3, maxUnavailable: "20%" },
      },
    },
  },
  {
    name: "WH-21: a blank in an annotation's key",
    spec: template({ annotations: { "foo bar": "baz" } }),
    refused: [
      `spec.template.metadata.annotations: Invalid value: ${ANNOTATION}`,
    ],
  },
  {
    name: "a name of 64 characters in an annotation's key",
    spec: template({ annotations: { [`example.com/${"a".repeat(64)}`]: "" } }),
    refused: [ANNOTATION],
  },
  {
    name: "an annotation's key with a prefix, a value with blanks",
    spec: template({ annotations: { "example.com/Foo_bar.1": "foo bar" } }),
  },
  {
    name: "WH-22: a blank in a label's value",
    spec: template({ labels: { foo: "bar baz" } }),
    refused: [
      `spec.template.metadata.labels[foo]: Invalid value: "bar baz": ${LABEL_VALUE}`,
    ],
  },
  {
    name: "a blank in a label's key",
    spec: template({ labels: { "foo bar": "baz" } }),
    refused: [`spec.template.metadata.labels: Invalid value: ${LABEL_KEY}`],
  },
  {
    name: "an upper-case prefix of a label's key",
    spec: template({ labels: { "Example.com/foo": "bar" } }),
    refused: [LABEL_KEY],
  },
  {
    name: "prefixes of 253 characters",
    spec: template({
      labels: { [`${"a".repeat(253)}/b`]: "" },
      annotations: { [`${"a".repeat(253)}/b`]: "" },
    }),
  },
  {
    name: "a prefix of 254 characters of a label's key",
    spec: template({ labels: { [`${"a".repeat(254)}/b`]: "" } }),
    refused: [LABEL_KEY],
  },
  {
    name: "a prefix of 254 characters of an annotation's key",
    spec: template({ annotations: { [`${"a".repeat(254)}/b`]: "" } }),
    refused: [ANNOTATION],
  },
  {
    name: "a label value of 64 characters",
    spec: template({ labels: { foo: "a".repeat(64) } }),
    refused: ["spec.template.metadata.labels.foo: Too long"],
  },
  {
    name: "labels with an empty value and with a prefix",
    spec: template({ labels: { foo: "", "example.com/foo": "a.b_c-1" } }),
  },
  {
    name: "WH-24: an unknown sessionAffinity",
    spec: { sessionAffinity: "hoge" },
    refused: ['spec.sessionAffinity: Unsupported value: "hoge"'],
  },
  { name: "WH-25: sessionAffinity None", spec: { sessionAffinity: "None" } },
  {
    name: "an upper-case prefix of an annotation's key, as Pods may have",
    spec: template({ annotations: { "Example.com/foo": "bar" } }),
  },
  {
    name: "Recreate with settings of the other type",
    spec: { strategy: { type: "Recreate", rollingUpdate: { maxSurge: 1 } } },
    refused: ["spec.strategy: Invalid value: invalid strategy: rollingUpdate"],
  },
  { name: "failurePolicy Open", spec: { failurePolicy: "Open" } },
  {
    name: "an unknown failurePolicy",
    spec: { failurePolicy: "Ignore" },
    refused: ['spec.failurePolicy: Unsupported value: "Ignore"'],
  },
  { name: "clients that choose", spec: { gatewaySelection: "Direct" } },
  {
    name: "an unknown gatewaySelection",
    spec: { gatewaySelection: "Random" },
    refused: ['spec.gatewaySelection: Unsupported value: "Random"'],
  },
  { name: "lost connections that are kept", spec: { lostConnections: "Keep" } },
  {
    name: "an unknown lostConnections",
    spec: { lostConnections: "Move" },
    refused: ['spec.lostConnections: Unsupported value: "Move"'],
  },
  {
    name: "gateways of the own zone first",
    spec: { trafficDistribution: "PreferSameZone" },
  },
  {
    name: "an unknown trafficDistribution",
    spec: { trafficDistribution: "Local" },
    refused: ['spec.trafficDistribution: Unsupported value: "Local"'],
  },
  { name: "no limit for clients", spec: { maxFlowsPerClient: 0 } },
  { name: "a limit for clients", spec: { maxFlowsPerClient: 50_000 } },
  {
    name: "less than no connections for a client",
    spec: { maxFlowsPerClient: -1 },
    refused: ["spec.maxFlowsPerClient: Invalid value: -1"],
  },
  {
    name: "one destination twice, and one inside another",
    spec: { destinations: ["10.0.0.0/8", "10.0.0.0/8", "10.1.0.0/16"] },
  },
  {
    name: "a time-out of the affinity",
    spec: { sessionAffinityConfig: { clientIP: { timeoutSeconds: 43200 } } },
  },
  {
    name: "a time-out that no Service may have",
    spec: { sessionAffinityConfig: { clientIP: { timeoutSeconds: 86401 } } },
    refused: ["sessionAffinityConfig.clientIP.timeoutSeconds: Invalid value"],
  },
  { name: "WH-28: maxUnavailable 1", spec: budget({ maxUnavailable: 1 }) },
  { name: "minAvailable 0", spec: budget({ minAvailable: 0 }) },
  { name: "minAvailable 100%", spec: budget({ minAvailable: "100%" }) },
  {
    name: "WH-29: minAvailable and maxUnavailable",
    spec: budget({ minAvailable: 1, maxUnavailable: 1 }),
    refused: [
      "spec.podDisruptionBudget: Invalid value: invalid pod disruption budget: minAvailable and maxUnavailable exclude each other",
    ],
  },
  {
    name: "WH-30: 120%",
    spec: budget({ maxUnavailable: "120%" }),
    refused: [
      `spec.podDisruptionBudget.maxUnavailable: Invalid value: "120%": ${BUDGET}`,
    ],
  },
  {
    name: "a negative minAvailable",
    spec: budget({ minAvailable: -1 }),
    refused: [
      `spec.podDisruptionBudget.minAvailable: Invalid value: -1: ${BUDGET}`,
    ],
  },
  {
    name: "101%",
    spec: budget({ minAvailable: "101%" }),
    refused: [BUDGET],
  },
  {
    name: "a minAvailable that is neither number nor percentage",
    spec: budget({ minAvailable: "2" }),
    refused: [BUDGET],
  },
];

const UPDATED: readonly Case[] = [
  {
    name: "WH-18: negative replicas",
    spec: { replicas: -1 },
    refused: ["spec.replicas: Invalid value: -1", ".spec.replicas: "],
  },
  {
    name: "WH-26: one more destination",
    spec: { destinations: ["10.0.0.0/8", "fd00::/8", "fd03::/112"] },
  },
  {
    name: "WH-27: replicas 10, affinity None",
    spec: { replicas: 10, sessionAffinity: "None" },
  },
  {
    name: "a destination that is no CIDR",
    spec: { destinations: ["10.0.0.0/8", "fd03::"] },
    refused: [NO_CIDR],
  },
];

function egress(name: string, spec: object): object {
  return {
    apiVersion: "coil.cybozu.com/v2",
    kind: "Egress",
    metadata: { name },
    spec: { destinations: ["10.0.0.0/8"], ...spec },
  };
}

Deno.test("the API server refuses what an Egress must not be", async (t) => {
  await using plane = await startCoilPlane({ name: "crdegress" });
  const post = (name: string, spec: object) =>
    refusals(plane, { method: "POST", path: PATH, body: egress(name, spec) });
  const specOf = async (name: string): Promise<unknown> => {
    const json = await plane.kubectl("get", `egress/${name}`, "-o=json");
    return JSON.parse(json).spec;
  };

  await t.step("WH-13: defaults", async () => {
    const destinations = ["10.0.0.0/8", "fd00::/8"];
    assertRefused(await post("defaults", { destinations, replicas: 1 }));
    assert.deepEqual(await specOf("defaults"), {
      destinations,
      replicas: 1,
      sessionAffinity: "ClientIP",
      fouSourcePortAuto: false,
      failurePolicy: "Closed",
      gatewaySelection: "Service",
      lostConnections: "End",
    });
  });

  await t.step("WH-23: a template without containers gets one", async () => {
    const metadata = {
      annotations: { foo: "bar baz" },
      labels: { foo: "bar" },
    };
    const tolerations = [{ key: "foo", operator: "Exists" }];
    const spec = { template: { metadata, spec: { tolerations } } };
    assertRefused(await post("template", spec));
    const stored = await specOf("template");
    assert.deepEqual((stored as { template?: unknown }).template, {
      metadata,
      spec: { tolerations, containers: [{ name: "egress" }] },
    });
  });

  await t.step(
    "a template's containers and their fields are kept",
    async () => {
      const containers = [{
        name: "sidecar",
        image: "example.com/sidecar:1",
        resources: { limits: { cpu: "2" } },
      }];
      const spec = {
        template: { spec: { containers, schedulerName: "mine" } },
      };
      assertRefused(await post("containers", spec));
      const stored = await specOf("containers");
      assert.deepEqual(
        (stored as { template?: unknown }).template,
        spec.template,
      );
    },
  );

  for (const [i, { name, spec, refused }] of CREATED.entries()) {
    const verb = refused === undefined ? "accepted" : "refused";
    await t.step(`create, ${name}: ${verb}`, async () => {
      assertRefused(await post(`created-${i}`, spec), refused);
    });
  }

  for (const { name, spec, refused } of UPDATED) {
    const verb = refused === undefined ? "accepted" : "refused";
    await t.step(`update, ${name}: ${verb}`, async () => {
      const path = `${PATH}/defaults`;
      const request = { method: "PATCH", path, body: { spec } } as const;
      assertRefused(await refusals(plane, request), refused);
    });
  }

  for (const name of ["1st", "a.b", "a".repeat(64), "a-"]) {
    await t.step(`the name ${name}: refused`, async () => {
      const lines = await post(name, {});
      assert.ok(
        lines.some((line) => /invalid name|metadata.name: /.test(line)),
        lines.join("\n"),
      );
    });
  }

  await t.step("a name of 63 characters: accepted", async () => {
    assertRefused(await post("a".repeat(63), {}));
  });

  await t.step("status and scale are subresources", async () => {
    const selector = "app.kubernetes.io/name=coil,app.kubernetes.io/instance=a";
    const status = {
      replicas: 4,
      availableReplicas: 3,
      selector,
      clients: 17,
      conditions: [{
        type: "Ready",
        status: "True",
        reason: "GatewayAvailable",
        message: "",
        lastTransitionTime: "2026-01-02T03:04:05Z",
      }],
    };
    const path = `${PATH}/defaults/status`;
    const request = { method: "PATCH", path, body: { status } } as const;
    assertRefused(await refusals(plane, request));
    await plane.kubectl("scale", "egress/defaults", "--replicas=2");
    const scale = await plane.request(
      "GET",
      `/apis/coil.cybozu.com/v2${PATH}/defaults/scale`,
    );
    const { spec, status: seen } = scale as Record<string, unknown>;
    assert.deepEqual(spec, { replicas: 2 });
    assert.deepEqual(seen, { replicas: 4, selector });
    assert.match(
      await plane.kubectl("get", "egress/defaults", "--no-headers"),
      /^defaults +True +GatewayAvailable +2 +3 +17 +\d/,
    );
    assert.deepEqual(await columnsOf(plane, "egr"), [
      ...["NAME", "READY", "REASON", "REPLICAS", "AVAILABLE", "CLIENTS"],
      ...["DESTINATIONS", "SOURCES", "AFFINITY", "AGE"],
    ]);
  });

  await t.step("a client slice shows its Egress in kubectl", async () => {
    await plane.apply({
      apiVersion: "coil.cybozu.com/v2",
      kind: "EgressClientSlice",
      metadata: {
        name: "defaults-0",
        namespace: "default",
        labels: { "app.kubernetes.io/instance": "defaults" },
      },
      clients: [],
    });
    assert.match(
      await plane.kubectl("get", "egressclientslices", "--no-headers"),
      /^defaults-0 +defaults +\d+s/,
    );
    assert.deepEqual(await columnsOf(plane, "ecs"), ["NAME", "EGRESS", "AGE"]);
    assert.match(
      await plane.kubectl("get", "coil", "-o=name"),
      /^egressclientslice\.coil\.cybozu\.com\/defaults-0$/m,
    );
  });

  await t.step(
    "each gateway applies its own entry, and takes none of another's",
    async () => {
      for (const [name, clients] of [["a-1", 3], ["a-2", 4]] as const) {
        await plane.request(
          "PATCH",
          `/apis/coil.cybozu.com/v2${PATH}/defaults/status?fieldManager=coil-egress-${name}&force=true`,
          {
            apiVersion: "coil.cybozu.com/v2",
            kind: "Egress",
            metadata: { name: "defaults" },
            status: { gateways: [{ name, clients, draining: false }] },
          },
          { contentType: "application/apply-patch+yaml" },
        );
      }
      const { status } = await plane.request(
        "GET",
        `/apis/coil.cybozu.com/v2${PATH}/defaults`,
      ) as { status: { gateways: unknown; clients: number } };
      assert.deepEqual(status.gateways, [
        { name: "a-1", clients: 3, draining: false },
        { name: "a-2", clients: 4, draining: false },
      ]);
      assert.equal(status.clients, 17);
    },
  );
});
