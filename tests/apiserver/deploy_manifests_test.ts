// The manifests as a real API server sees them.
import assert from "node:assert/strict";
import { type FlagSpec, readCommandLine } from "../../lib/flags/mod.ts";
import {
  COILD_ADDRESSES,
  COORDINATOR_COILD_SOCKET,
  EGRESS_CONTROLLER_ADDRESSES,
  IPAM_CONTROLLER_ADDRESSES,
  ROUTER_ADDRESSES,
  type ServerAddresses,
  VERSION,
} from "../../lib/names/mod.ts";
import { CONTROLLER_FLAGS } from "../../roles/coil_controller/mod.ts";
import { COILD_FLAGS } from "../../roles/coild/mod.ts";
import { ControlPlane, eventually } from "../lab/mod.ts";
import { grantedTo } from "../runner/rights.ts";
import {
  containersOf,
  helmTemplate,
  kustomize,
  OVERLAYS,
  parseManifests,
} from "./deploy_render.ts";
import { MONITORING_CRDS } from "./monitoring_crds.ts";

const DRY_RUN = ["apply", "--server-side", "--dry-run=server", "-f", "-"];

const SERVERS: Readonly<Record<string, ServerAddresses>> = {
  "coild": COILD_ADDRESSES,
  "coil-controller": IPAM_CONTROLLER_ADDRESSES,
  "coil-ipam-controller": IPAM_CONTROLLER_ADDRESSES,
  "coil-egress-controller": EGRESS_CONTROLLER_ADDRESSES,
  "coil-router": ROUTER_ADDRESSES,
};

/** All that any container of ours may have; what each has is in its manifest, with the reason. */
const CAPABILITIES: Readonly<Record<string, readonly string[]>> = {
  "coil-installer": ["DAC_OVERRIDE", "SYS_MODULE", "NET_ADMIN"],
  "coild": ["NET_ADMIN", "SYS_ADMIN"],
  "coil-router": ["NET_ADMIN"],
};

/** Of those that a manifest gives arguments. */
const FLAGS: Readonly<Record<string, FlagSpec>> = {
  "coild": COILD_FLAGS,
  "coil-controller": CONTROLLER_FLAGS,
};

/** What coild of an overlay has besides. */
const EXTRA: Readonly<Record<string, readonly string[]>> = {
  "compat": ["SYS_PTRACE"],
  "coordinator": ["NET_RAW"],
  "coordinator-only": ["NET_RAW"],
};

interface Selecting {
  readonly matchLabels: Readonly<Record<string, string>>;
  readonly matchExpressions?: readonly {
    readonly key: string;
    readonly values: readonly string[];
  }[];
}

/** Which pods Prometheus scrapes by a Service of deploy/monitoring, and the job that they are then. */
async function scrapedWorkloads() {
  const objects = [
    ...parseManifests(await kustomize("monitoring")).values(),
  ];
  const specs = <T>(wanted: string) =>
    objects.filter(({ kind }) => kind === wanted)
      .map(({ metadata, spec }) => ({ metadata, spec: spec as T }));
  const monitors = specs<{ jobLabel: string; selector: Selecting }>(
    "ServiceMonitor",
  );
  return specs<{ selector: Record<string, string> }>("Service").flatMap((
    { metadata: { labels = {} }, spec: { selector } },
  ) =>
    monitors.filter(({ spec: { selector: wanted } }) =>
      Object.entries(wanted.matchLabels).every(([key, value]) =>
        labels[key] === value
      ) &&
      (wanted.matchExpressions ?? []).every(({ key, values }) =>
        values.includes(labels[key] ?? "")
      )
    ).map(({ spec: { jobLabel } }) => ({ selector, job: labels[jobLabel] }))
  );
}

function portOf(address: string): number {
  return Number(address.split(":").at(-1));
}

Deno.test("the API server takes every overlay", async (t) => {
  await using plane = await ControlPlane.start({
    name: "manifests",
    controllerManager: true,
  });
  for (const overlay of OVERLAYS) {
    await t.step(`overlay ${overlay}`, async () => {
      const text = await kustomize(`overlays/${overlay}`);
      const answer = await plane.kubectlStdin(DRY_RUN, text);
      const lines = answer.trim().split("\n");
      assert.equal(lines.length, parseManifests(text).size, answer);
      for (const line of lines) assert.match(line, /serverside-applied/);
    });
  }
  await t.step("what takes it off the nodes", async () => {
    const answer = await plane.kubectlStdin(
      DRY_RUN,
      await kustomize("uninstall"),
    );
    assert.match(answer, /coil-uninstall serverside-applied/);
  });
  await t.step("the chart, with all that it can", async () => {
    await plane.apply(...MONITORING_CRDS);
    await plane.definitionsEstablished();
    const text = await helmTemplate([
      ...[
        "--set",
        "router.enabled=true,coordinator.enabled=true,coild.hostPID=true",
      ],
      ...["serviceMonitor", "prometheusRule", "dashboard"].flatMap((
        what,
      ) => ["--set", `monitoring.${what}.enabled=true`]),
    ]);
    const answer = await plane.kubectlStdin(DRY_RUN, text);
    assert.equal(
      answer.trim().split("\n").length,
      parseManifests(text).size,
      answer,
    );
    assert.match(answer, /prometheusrule\S+\/coil serverside-applied/);
  });
  await t.step(
    "the monitors' definitions refuse what they do not know",
    async () => {
      const text = (await kustomize("monitoring"))
        .replace("podMetricsEndpoints", "podMetricEndpoints");
      await assert.rejects(
        plane.kubectlStdin(DRY_RUN, text),
        /podMetricEndpoint/,
      );
    },
  );
  await t.step(
    "the default overlay, applied twice, changes nothing",
    async () => {
      const apply = () =>
        plane.kubectl(
          "apply",
          "-k",
          new URL("../../deploy/overlays/default", import.meta.url).pathname,
        );
      assert.match(await apply(), /daemonset.apps\/coild created/);
      await apply();
      // kubectl says "configured" of a budget that it leaves as it is.
      const generations = await plane.kubectl(
        ...[
          "get",
          "-n",
          "kube-system",
          "-o",
          "jsonpath={.items[*].metadata.generation}",
        ],
        "daemonset/coild",
        "deployment/coil-controller",
        "poddisruptionbudget/coil-controller",
      );
      assert.equal(generations, "1 1 1");
    },
  );
  await t.step("the policies' expressions have the right types", async () => {
    interface Policies {
      readonly items: readonly {
        readonly metadata: { readonly name: string };
        readonly status?: {
          readonly observedGeneration?: number;
          readonly typeChecking?: { readonly expressionWarnings?: unknown[] };
        };
      }[];
    }
    const policies = [...parseManifests(await kustomize("policies")).keys()]
      .filter((key) => key.startsWith("ValidatingAdmissionPolicy/"))
      .map((key) => key.split("/")[1] ?? "").sort();
    assert.ok(policies.length > 2);
    await eventually("the type checks", async () => {
      const { items } = await plane.request(
        "GET",
        "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
      ) as Policies;
      const ours = items.filter(({ metadata }) =>
        metadata.name.startsWith("coil-")
      );
      if (ours.some(({ status }) => status?.observedGeneration !== 1)) {
        return false;
      }
      const names = ours.map(({ metadata }) => metadata.name);
      assert.deepEqual(names.sort(), policies);
      for (const { status, metadata } of ours) {
        assert.deepEqual(
          status?.typeChecking?.expressionWarnings ?? [],
          [],
          metadata.name,
        );
      }
      return true;
    });
  });
  await t.step("pods can be made of the workloads", async () => {
    // The Deployment's are: a ReplicaSet that may not make pods says so.
    await eventually("the controllers' pods", async () => {
      const names = await plane.kubectl(
        ...["get", "pods", "-n", "kube-system", "-o", "name"],
        ...["-l", "app.kubernetes.io/component=coil-controller"],
      );
      return names.trim().split("\n").filter(Boolean).length === 2;
    });
  });
});

/** Far above what was measured: docs/security.md. */
const MEMORY: Readonly<Record<string, string>> = {
  "coild": "384Mi",
  "coil-controller": "512Mi",
  "coil-ipam-controller": "512Mi",
  "coil-egress-controller": "512Mi",
  "coil-router": "256Mi",
};

/** The socket that a network configuration names. */
function pluginSocket(text: string): string {
  const plugins: { type: string; socket?: string }[] = JSON.parse(text).plugins;
  assert.equal(plugins[0]?.type, "coil");
  return plugins[0]?.socket ?? "";
}

for (const overlay of OVERLAYS) {
  Deno.test(`overlay ${overlay}: the memory of each daemon is limited`, async () => {
    const rendered = parseManifests(await kustomize(`overlays/${overlay}`));
    for (const { container: { name, resources } } of containersOf(rendered)) {
      if (name === "coil-installer") continue;
      assert.ok(MEMORY[name] !== undefined, name);
      assert.equal(resources?.limits?.memory, MEMORY[name], name);
    }
  });

  Deno.test(`overlay ${overlay}: no container has more than it needs`, async () => {
    const rendered = parseManifests(await kustomize(`overlays/${overlay}`));
    for (const { spec } of rendered.values()) {
      const pod = spec?.template?.spec;
      if (pod === undefined) continue;
      assert.deepEqual(pod.securityContext?.seccompProfile, {
        type: "RuntimeDefault",
      });
    }
    const containers = containersOf(rendered);
    assert.ok(containers.length >= 3);
    for (const { container } of containers) {
      const { name, securityContext: context } = container;
      assert.equal(container.image, `coil:${VERSION}`);
      assert.equal(container.command[0], name);
      assert.equal(context.privileged, false, name);
      assert.equal(context.allowPrivilegeEscalation, false, name);
      assert.equal(context.readOnlyRootFilesystem, true, name);
      assert.deepEqual(context.capabilities.drop, ["ALL"], name);
      const allowed = CAPABILITIES[name] ?? [];
      const extra = (context.capabilities.add ?? []).filter((capability) =>
        !allowed.includes(capability)
      );
      assert.deepEqual(
        extra,
        name === "coild" ? EXTRA[overlay] ?? [] : [],
        name,
      );
    }
  });

  Deno.test(`overlay ${overlay}: the programs know their arguments`, async () => {
    const rendered = parseManifests(await kustomize(`overlays/${overlay}`));
    for (const { container: { name, args = [] } } of containersOf(rendered)) {
      const flags = FLAGS[name];
      if (flags === undefined) continue;
      for (const value of ["", "prod"]) {
        const given = args.map((arg) => arg.replace(/\$\(\w+\)/, value));
        const info = { program: name, version: VERSION, about: "" };
        assert.equal(readCommandLine(flags, given, info).kind, "run", name);
      }
    }
  });

  Deno.test(`overlay ${overlay}: ports and probes are the programs'`, async () => {
    const rendered = parseManifests(await kustomize(`overlays/${overlay}`));
    for (const { container } of containersOf(rendered)) {
      const { name, ports, readinessProbe, livenessProbe } = container;
      if (name === "coil-installer") continue;
      const addresses = SERVERS[name];
      assert.ok(addresses !== undefined, name);
      assert.deepEqual(
        ports?.map((port) => [port.name, port.containerPort]),
        [
          ["metrics", portOf(addresses.metrics)],
          ["health", portOf(addresses.health)],
        ],
      );
      assert.equal(readinessProbe?.httpGet.path, "/readyz");
      assert.equal(livenessProbe?.httpGet.path, "/healthz");
      const [host] = addresses.health.split(":");
      assert.equal(readinessProbe?.httpGet.host, host);
      assert.equal(livenessProbe?.httpGet.host, host);
    }
  });

  Deno.test(`overlay ${overlay}: deploy/monitoring scrapes each workload under its name`, async () => {
    const rendered = parseManifests(await kustomize(`overlays/${overlay}`));
    const scraped = await scrapedWorkloads();
    for (const { kind, metadata, spec } of rendered.values()) {
      if (!/^(Deployment|DaemonSet)$/.test(kind)) continue;
      const { labels = {} } = spec?.template?.metadata ?? {};
      const job = scraped.find(({ selector }) =>
        Object.entries(selector).every(([key, value]) => labels[key] === value)
      )?.job;
      assert.equal(job, metadata.name);
    }
  });

  Deno.test(`overlay ${overlay}: plugin and daemon meet at one socket, in a directory that is mounted`, async () => {
    const rendered = parseManifests(await kustomize(`overlays/${overlay}`));
    const text = rendered.get("ConfigMap/coil-config")?.data?.["cni_netconf"];
    const isConfigured = overlay !== "coordinator-only";
    assert.equal(text !== undefined, isConfigured);
    const socket = isConfigured
      ? pluginSocket(text ?? "")
      : COORDINATOR_COILD_SOCKET;
    const coild = containersOf(rendered).find(({ container }) =>
      container.name === "coild"
    )?.container;
    const flag = coild?.args?.find((arg) => arg.startsWith("--socket="));
    assert.equal(socket, flag?.slice("--socket=".length) ?? "/run/coild.sock");
    const directory = socket.slice(0, socket.lastIndexOf("/"));
    const paths = coild?.volumeMounts?.map(({ mountPath }) => mountPath) ?? [];
    assert.ok(paths.includes(directory), `${directory} of ${paths}`);
  });
}

Deno.test("overlay compat has upstream's names", async () => {
  const rendered = parseManifests(await kustomize("overlays/compat"));
  for (const half of ["ipam", "egress"]) {
    const name = `coil-${half}-controller`;
    for (
      const kind of [
        "Deployment",
        "ServiceAccount",
        "ClusterRole",
        "ClusterRoleBinding",
      ]
    ) {
      assert.ok(rendered.has(`${kind}/${name}`), `${kind}/${name}`);
    }
  }
  assert.ok(rendered.has("DaemonSet/coild"));
  const left = [...rendered].filter(([key, object]) =>
    key !== "ClusterRole/coil-controller" &&
    key !== "ClusterRoleBinding/coil-controller" &&
    JSON.stringify(object).includes('"coil-controller"')
  );
  assert.deepEqual(left.map(([key]) => key), []);
});

Deno.test("overlay compat: the halves of the controller share its rights out, and have no other in common than leases, Events and pods", async () => {
  const overlay = "overlays/compat";
  const [all, ipam, egress] = await Promise.all([
    grantedTo("kube-system:coil-controller"),
    grantedTo("kube-system:coil-ipam-controller", overlay),
    grantedTo("kube-system:coil-egress-controller", overlay),
  ]);
  assert.deepEqual([...ipam.union(egress)].sort(), [...all].sort());
  const resources = [...ipam.intersection(egress)]
    .map((right) => right.split(" ")[1]);
  assert.deepEqual([...new Set(resources)].sort(), [
    "events",
    "leases",
    "pods",
  ]);
});
