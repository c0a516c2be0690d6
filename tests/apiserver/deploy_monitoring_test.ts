// Alerts and dashboard ask for metrics that the programs really have.
import assert from "node:assert/strict";
import { parse } from "yaml";
import { buildExecutable } from "../../deploy/executable/mod.ts";
import { CoilCluster } from "../lab/coil.ts";
import { eventually, inNetns, run } from "../lab/mod.ts";
import { MACHINE_HOST } from "../lab/network.ts";
import { DEPLOY } from "./deploy_render.ts";
import { EgressLab, untilReady } from "./egress_gateway_lab.ts";
import { metricsOf } from "./promql.ts";

interface Rules {
  readonly spec: {
    readonly groups: readonly {
      readonly rules: readonly {
        readonly alert: string;
        readonly expr: string;
        readonly annotations: Readonly<Record<string, string>>;
        readonly labels: Readonly<Record<string, string>>;
      }[];
    }[];
  };
}

interface Dashboard {
  readonly panels: readonly {
    readonly title: string;
    readonly id: number;
    readonly targets?: readonly { readonly expr: string }[];
  }[];
}

async function rules(): Promise<Rules["spec"]["groups"][number]["rules"]> {
  const text = await Deno.readTextFile(`${DEPLOY}monitoring/rules.yaml`);
  return (parse(text) as Rules).spec.groups.flatMap((group) => group.rules);
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

/** Names of all metrics of coild, coil-controller and coil-router, scraped from the programs. */
async function scrapeDaemons(): Promise<Set<string>> {
  await using cluster = await CoilCluster.start({
    name: "metrics",
    executable: await buildExecutable(),
    nodes: 1,
  });
  const [node] = cluster.nodes;
  assert.ok(node !== undefined);
  await cluster.startController();
  await cluster.startCoild(node);
  await using _router = await cluster.startRouter(node);
  const { subnet } = cluster.plane;
  const controller = `${subnet.address("ipv4", MACHINE_HOST)}:9386`;
  const names = [
    ...await scrape(() => run("curl", ["-sf", `http://${controller}/metrics`])),
  ];
  for (const port of [9384, 9388]) {
    const url = `http://127.0.0.1:${port}/metrics`;
    names.push(
      ...await scrape(() => inNetns(node.netns, "curl", ["-sf", url])),
    );
  }
  return new Set(names);
}

async function scrape(fetchText: () => Promise<string>): Promise<string[]> {
  return await eventually(
    "metrics",
    async () => namesOf(await fetchText()),
    { timeoutMs: 60_000 },
  );
}

/** Names of all metrics of a gateway. */
async function scrapeGateway(): Promise<string[]> {
  await using lab = await EgressLab.start("gatewaymetrics");
  await using gateway = await lab.startGateway();
  await untilReady(gateway);
  return namesOf((await gateway.metrics("# TYPE")).join("\n"));
}

Deno.test("alerts and dashboard ask for metrics that there are", async (t) => {
  const known = new Set([...await scrapeDaemons(), ...await scrapeGateway()]);
  assert.ok(known.has("coil_coild_ready") && known.has("coil_egress_flows"));
  const unknownOf = (expression: string) =>
    metricsOf(expression).filter((metric) => !known.has(metric));
  for (const { alert, expr } of await rules()) {
    await t.step(`alert ${alert}`, () => {
      assert.deepEqual(unknownOf(expr), []);
      assert.ok(metricsOf(expr).length > 0, expr);
    });
  }
  const { panels } = await dashboard();
  for (const { title, targets = [] } of panels) {
    await t.step(`panel ${title}`, () => {
      for (const { expr } of targets) {
        assert.deepEqual(unknownOf(expr), []);
        assert.ok(metricsOf(expr).length > 0, expr);
      }
    });
  }
});

Deno.test("alerts have what a person needs", async () => {
  const all = await rules();
  const names = all.map(({ alert }) => alert);
  assert.equal(new Set(names).size, names.length);
  for (const { alert, annotations, labels } of all) {
    assert.match(alert, /^Coil[A-Z]\w+$/);
    assert.ok(["critical", "warning"].includes(labels["severity"] ?? ""));
    assert.ok((annotations["summary"]?.length ?? 0) > 10, alert);
    assert.ok((annotations["description"]?.length ?? 0) > 10, alert);
  }
});

Deno.test("panels of the dashboard have numbers of their own", async () => {
  const { panels } = await dashboard();
  assert.ok(panels.length > 20);
  assert.equal(new Set(panels.map(({ id }) => id)).size, panels.length);
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
