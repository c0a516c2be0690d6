// Alerts and dashboard ask for metrics that the programs really have.
import assert from "node:assert/strict";
import { buildExecutable } from "../../deploy/executable/mod.ts";
import { Address } from "../../lib/inet/mod.ts";
import { testedCommands } from "../arch/pages.ts";
import { CoilCluster } from "../lab/coil.ts";
import { eventually, inNetns, type LabNode, run } from "../lab/mod.ts";
import { MACHINE_HOST } from "../lab/network.ts";
import { VpcLab } from "./coild_vpc_lab.ts";
import { COIL_API } from "./crds.ts";
import { DEPLOY } from "./deploy_render.ts";
import type { ClientsKernel } from "./clients_kernel.ts";
import { EgressLab, untilReady } from "./egress_gateway_lab.ts";
import { alertRules } from "./monitoring_rules.ts";
import { patchStatus } from "./patch_status.ts";
import {
  evaluate,
  labelsOf,
  metricsOf,
  scrapedSeries,
  withoutThresholds,
} from "./promql.ts";

/** Of Prometheus and of kube-state-metrics. */
const OF_OTHERS = [
  "up",
  "kube_daemonset_status_desired_number_scheduled",
  "kube_daemonset_status_current_number_scheduled",
];

interface Dashboard {
  readonly panels: readonly {
    readonly title: string;
    readonly description?: string;
    readonly id: number;
    readonly targets?: readonly { readonly expr: string }[];
  }[];
}

async function dashboard(): Promise<Dashboard> {
  return JSON.parse(
    await Deno.readTextFile(`${DEPLOY}monitoring/dashboard.json`),
  );
}

/** Names of metrics in the text of a scrape. */
function namesOf(scrape: string): string[] {
  return [...scrape.matchAll(/^# TYPE (\S+) (\S+)$/gm)].flatMap((
    [, name = "", type],
  ) =>
    type === "histogram"
      ? ["_bucket", "_sum", "_count"].map((suffix) => name + suffix)
      : [name]
  );
}

/** What a program's /metrics says, and the labels that its monitor gives it. */
interface Scrape {
  readonly text: string;
  readonly target: Readonly<Record<string, string>>;
  readonly honorLabels?: boolean;
}

const NODE = "n1";

function targetOf(job: string): Scrape["target"] {
  return { namespace: "kube-system", job, node: NODE, pod: `${job}-1` };
}

/** Scrapes coild, coil-controller and coil-router after one pod got its network. */
async function scrapeDaemons(): Promise<readonly Scrape[]> {
  await using cluster = await CoilCluster.start({
    name: "metrics",
    executable: await buildExecutable(),
    nodes: 1,
  });
  const [node] = cluster.nodes;
  assert.ok(node !== undefined);
  await cluster.plane.request("POST", `${COIL_API}/addresspools`, {
    apiVersion: "coil.cybozu.com/v2",
    kind: "AddressPool",
    metadata: { name: "default" },
    spec: { blockSizeBits: 5, subnets: [{ ipv4: "10.126.0.0/24" }] },
  });
  await cluster.startController(["--vpc-sweep-cluster=prod"], {
    AWS_EC2_METADATA_SERVICE_ENDPOINT: "http://127.0.0.1:1",
  });
  await cluster.startCoild(node, ["--enable-coordinator"]);
  await using _router = await cluster.startRouter(node);
  const pod = { namespace: "default", name: "one" };
  const sandbox = await cluster.createSandbox(node, pod);
  await cluster.add(node, sandbox);
  await assertShowsPhases(node);
  const { subnet } = cluster.plane;
  const url = (port: number, host = "127.0.0.1") =>
    `http://${host}:${port}/metrics`;
  const onNode = (port: number) => () =>
    inNetns(node.netns, "curl", ["-sf", url(port)]);
  const host = subnet.address("ipv4", MACHINE_HOST).toString();
  const ofController = () => run("curl", ["-sf", url(9386, host)]);
  // First: what comes next is in the metrics for some seconds only.
  await scrape("coil-controller", {
    get: ofController,
    has: /^coil_controller_audit_findings\{/m,
  });
  await scrape("coild", {
    get: onNode(9384),
    has: /^coil_coild_audit_findings\{/m,
  });
  await usePoolUp(cluster, node);
  const scrapes = [
    await scrape("coild", { get: onNode(9384), has: /^coil_coild_blocks\{/m }),
    await scrape("coil-controller", {
      get: ofController,
      has: /^coil_controller_egress_gateway_lost_nodes\{/m,
    }),
    await scrape("coil-router", { get: onNode(9388), has: /^coil_router/m }),
  ];
  await cluster.del(node, sandbox);
  await cluster.removeSandbox(sandbox);
  return scrapes;
}

/** Scrapes a coild whose pods have addresses of the VPC, after one found none. */
async function scrapeVpc(): Promise<Scrape> {
  await using vpc = await VpcLab.start("vpcmetrics");
  const few = ["--max-enis=1", "--warm-ips=1", "--min-ips=1"];
  await using coild = await vpc.start(["--vpc-mode=address", ...few]);
  const pods = ["one", "two", "three", "four"];
  const room = 3;
  let added = 0;
  // Each is tried again, as by a kubelet, until there is no room.
  const add = async (name: string) => {
    const pod = await vpc.lab.createPod(name);
    await eventually(`an end for ${name}`, async () => {
      const { code } = await vpc.plugin(coild, "ADD", pod);
      if (code === 0) added++;
      return code === 0 || added === room;
    });
  };
  await Promise.all(pods.map(add));
  assert.equal(added, room);
  const { text } = await scrape("coild", {
    get: () => coild.node.run("curl", "-sf", "http://127.0.0.1:9384/metrics"),
    has: /^coil_vpc_api_seconds_bucket\{/m,
  });
  return { text, target: { ...targetOf("coild"), node: "n2", pod: "coild-2" } };
}

/** Takes the only address of a pool, asks for another one, and wants an Egress, which has a gateway. */
async function usePoolUp(cluster: CoilCluster, node: LabNode): Promise<void> {
  const { plane } = cluster;
  await plane.apply(
    {
      apiVersion: "coil.cybozu.com/v2",
      kind: "AddressPool",
      metadata: { name: "tiny" },
      spec: { blockSizeBits: 0, subnets: [{ ipv4: "10.127.0.0/32" }] },
    },
    {
      apiVersion: "v1",
      kind: "Namespace",
      metadata: {
        name: "tiny",
        annotations: { "coil.cybozu.com/pool": "tiny" },
      },
    },
    {
      apiVersion: "coil.cybozu.com/v2",
      kind: "Egress",
      metadata: { name: "nat", namespace: "tiny" },
      spec: { destinations: ["0.0.0.0/0"] },
    },
    {
      apiVersion: "v1",
      kind: "Pod",
      metadata: { name: "nat-1", namespace: "tiny" },
      spec: { containers: [{ name: "egress", image: "none" }] },
    },
  );
  await patchStatus(plane, `${COIL_API}/namespaces/tiny/egresses/nat`, {
    gateways: [{ name: "nat-1" }],
  });
  const one = await cluster.createSandbox(node, {
    namespace: "tiny",
    name: "one",
  });
  await cluster.add(node, one);
  const two = await cluster.createSandbox(node, {
    namespace: "tiny",
    name: "two",
  });
  await assert.rejects(
    cluster.addOnce(node, two),
    /the pool has no free block/,
  );
}

/** The document's command shows where the time of an ADD went. */
async function assertShowsPhases({ netns }: LabNode): Promise<void> {
  const blocks = await testedCommands("docs/performance.md", import.meta.url);
  const [command = "", ...more] = blocks.flat();
  assert.deepEqual(more, []);
  const text = await inNetns(netns, "bash", [
    "-euo",
    "pipefail",
    "-c",
    command,
  ]);
  const counts = text.matchAll(/_count\{phase="(\w+)"\} [1-9]/g);
  const phases = [...counts].map(([, phase = ""]) => phase);
  assert.deepEqual(phases.sort(), ["address", "lock", "network", "pod"]);
}

async function scrape(
  job: string,
  { get, has }: {
    readonly get: () => Promise<string>;
    readonly has: RegExp;
  },
): Promise<Scrape> {
  const text = await eventually(`metrics of ${job}`, async () => {
    const found = await get();
    return has.test(found) && found;
  });
  return { text, target: targetOf(job) };
}

async function scrapeGateway(): Promise<Scrape> {
  await using lab = await EgressLab.start("gatewaymetrics");
  await using gateway = await lab.startGateway();
  await untilReady(gateway);
  giveTraffic(gateway.kernel);
  const text = await eventually("metrics of the traffic", async () => {
    const found = (await gateway.metrics("")).join("\n");
    return TRAFFIC.every((name) => found.includes(`\n${name}{`)) && found;
  });
  return { text, target: targetOf("egress"), honorLabels: true };
}

const TRAFFIC = [
  "coil_egress_client_limited",
  "coil_egress_foreign_fou_packets_total",
  "coil_egress_snat_ports_used",
];

/** Makes one of each thing that a gateway counts. */
function giveTraffic(kernel: ClientsKernel): void {
  const address = Address.parse("10.1.1.2");
  const counter = { ipv4: { packets: 1n, bytes: 40n } };
  kernel.limited = [address];
  kernel.readCounters = () =>
    Promise.resolve({
      masqueraded: counter,
      invalid: counter,
      unsolicited: counter,
      limited: counter,
      foreignFou: counter,
    });
  kernel.readFlows = () =>
    Promise.resolve({
      flows: 1,
      established: 0,
      clients: [{ address, flows: 1 }],
      ports: [{
        protocol: 6,
        largest: address,
        destination: Address.parse("192.0.2.1"),
        port: 443,
        used: 1,
        limit: 100,
      }],
    });
}

/** Stands for what is not a program of Coil. */
function seriesOfOthers(): readonly { series: string; values: string }[] {
  const jobs = ["coild", "coil-controller", "coil-router", "egress"];
  const [, ...daemonset] = OF_OTHERS;
  const scrape = daemonset.map((name) => `${name}{daemonset="coild"} 1`);
  return [
    ...jobs.flatMap((job) => scrapedSeries("up 1", targetOf(job))),
    ...scrapedSeries(scrape.join("\n"), { namespace: "kube-system" }),
  ];
}

/** Grafana's variables. */
function filledIn(expr: string): string {
  return expr.replaceAll("$__rate_interval", "5m").replaceAll("$pool", ".*");
}

Deno.test("alerts and dashboard ask for metrics that there are", async (t) => {
  const scrapes = [
    ...await scrapeDaemons(),
    await scrapeVpc(),
    await scrapeGateway(),
  ];
  const series = [
    ...seriesOfOthers(),
    ...scrapes.flatMap(({ text, target, honorLabels = false }) =>
      scrapedSeries(text, target, { honorLabels })
    ),
  ];
  const present = new Set(series.map((each) => each.series.split("{")[0]));
  const known = new Set([
    ...OF_OTHERS,
    ...scrapes.flatMap(({ text }) => namesOf(text)),
  ]);
  assert.ok(known.has("coil_coild_ready") && known.has("coil_egress_flows"));
  const unknownOf = (expression: string) =>
    metricsOf(expression).filter((metric) => !known.has(metric));
  for (const { alert, expr } of await alertRules()) {
    await t.step(`alert ${alert}`, () => {
      assert.deepEqual(unknownOf(expr), []);
      assert.ok(metricsOf(expr).length > 0, expr);
    });
  }
  assert.deepEqual(await alertsWithoutLabels(series), []);
  const { panels } = await dashboard();
  const queries = panels.flatMap(({ targets = [] }) =>
    targets.map(({ expr }) => filledIn(expr))
  );
  const answers = await evaluate(series, queries);
  for (const { title, targets = [] } of panels) {
    await t.step(`panel ${title}`, () => {
      for (const expr of targets.map((target) => filledIn(target.expr))) {
        assert.deepEqual(unknownOf(expr), []);
        assert.ok(metricsOf(expr).length > 0, expr);
        const answer = answers.get(expr) ?? "";
        assert.doesNotMatch(answer, /\berr: /);
        // What only sometimes has samples may have no result, as what is above 0.
        const isSure = metricsOf(expr).every((name) => present.has(name)) &&
          !expr.endsWith("> 0");
        if (isSure) assert.match(answer, /got: \{/, expr);
      }
    });
  }
});

/** Alerts whose expression joins or chooses by labels that the series lack, or whose text names others. */
async function alertsWithoutLabels(
  series: Parameters<typeof evaluate>[0],
): Promise<string[]> {
  const alerts = (await alertRules()).map((alert) => ({
    ...alert,
    query: withoutThresholds(alert.expr),
  }));
  const answers = await evaluate(series, alerts.map(({ query }) => query));
  return alerts.filter(({ query, annotations }) => {
    const answer = answers.get(query) ?? "";
    assert.doesNotMatch(answer, /\berr: /);
    const samples = labelsOf(answer);
    const used = Object.values(annotations).flatMap((text) =>
      [...text.matchAll(/\$labels\.(\w+)/g)].map(([, label = ""]) => label)
    );
    return samples.length === 0 ||
      !samples.every((labels) => used.every((name) => labels.includes(name)));
  }).map(({ alert }) => alert);
}

Deno.test("alerts have what a person needs", async () => {
  const all = await alertRules();
  const names = all.map(({ alert }) => alert);
  assert.equal(new Set(names).size, names.length);
  for (const { alert, annotations, labels } of all) {
    assert.match(alert, /^Coil[A-Z]\w+$/);
    assert.ok(["critical", "warning"].includes(labels["severity"] ?? ""));
    assert.ok((annotations["summary"]?.length ?? 0) > 10, alert);
    assert.ok((annotations["description"]?.length ?? 0) > 10, alert);
  }
});

Deno.test("panels of the dashboard have numbers of their own and descriptions", async () => {
  const { panels } = await dashboard();
  assert.ok(panels.length > 20);
  assert.equal(new Set(panels.map(({ id }) => id)).size, panels.length);
  for (const { title, targets, description = "" } of panels) {
    assert.ok(targets === undefined || description.length > 10, title);
  }
});

Deno.test("withoutThresholds() asks for the same series, with any values", () => {
  assert.equal(
    withoutThresholds(
      'absent(up{job="a"} == 1) or sum(b{x=~"1|2", y!="<3"}) > on (z) c unless d >= 0.5',
    ),
    '(up{job!=""} == bool 1) or sum(b{x!="", y!=""}) > bool on (z) c and d >= bool 0.5',
  );
  assert.deepEqual(
    labelsOf(
      'expr: "a{x=\\"1\\"}",\n   exp: nil\n   got: {b="1", c="2"} 0E+00',
    ),
    [["b", "c"]],
  );
});

Deno.test("metricsOf() finds metrics and not functions, labels or keywords", () => {
  assert.deepEqual(
    metricsOf(
      'sum by (node, le) (rate(a_total{x="b(c)", y!="d{}"}[5m])) / on (z) group_left (w) b_total > 0.5 and absent(c:d)',
    ),
    ["a_total", "b_total", "c:d"],
  );
  assert.deepEqual(
    metricsOf("histogram_quantile(0.99, sum(a_bucket) by (le))"),
    ["a_bucket"],
  );
});
