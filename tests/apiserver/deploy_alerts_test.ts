// Each alert fires when it should, and stays silent in what looks like it. Prometheus' own promtool decides.
import assert from "node:assert/strict";
import * as path from "node:path";
import { stringify } from "yaml";
import { CONTROLLER_LEASES } from "../../lib/names/mod.ts";
import { promtool } from "../lab/debian_programs.ts";
import { run } from "../lab/mod.ts";
import { CLUSTER } from "./alerts/cluster.ts";
import { COORDINATOR } from "./alerts/coordinator.ts";
import {
  HEALTHY,
  type SeriesValues,
  type Situation,
} from "./alerts/healthy.ts";
import { NODES } from "./alerts/nodes.ts";
import { VPC } from "./alerts/vpc.ts";
import { alertRules, ruleGroups } from "./monitoring_rules.ts";
import { selectorsOf, selects } from "./promql.ts";

const SITUATIONS: readonly Situation[] = [
  ...NODES,
  ...CLUSTER,
  ...VPC,
  ...COORDINATOR,
];
const alerts = await alertRules();

/** Alerts that fire at any time: one sample for each set of labels. */
function expectedOf({ fires = {} }: Situation) {
  return Object.entries(fires).flatMap(([alert, sets]) => {
    const rule = alerts.find((each) => each.alert === alert);
    const all = `alertname="${alert}",severity="${rule?.labels["severity"]}"`;
    return sets.split(" ").map((labels) => ({
      labels: `{alertstate="firing",${all},${labels}}`,
      value: 1,
    }));
  });
}

function promtoolTest(situation: Situation): string {
  const { series, after = 60, intervalMinutes = 1 } = situation;
  const time = `${after * intervalMinutes}m`;
  const all: SeriesValues = { ...HEALTHY, ...series };
  return stringify({
    rule_files: ["rules.yaml"],
    evaluation_interval: `${intervalMinutes}m`,
    tests: [{
      interval: `${intervalMinutes}m`,
      input_series: Object.entries(all).flatMap(([name, values]) =>
        values === undefined ? [] : [{ series: name, values }]
      ),
      promql_expr_test: [{
        expr: `max_over_time(ALERTS{alertstate="firing"}[${time}])`,
        eval_time: time,
        exp_samples: expectedOf(situation),
      }],
    }],
  });
}

Deno.test("alerts fire when they should, and only then", async () => {
  const directory = await Deno.makeTempDir();
  const write = async (name: string, text: string) => {
    const file = path.join(directory, name);
    await Deno.writeTextFile(file, text);
    return file;
  };
  const rules = await write("rules.yaml", stringify(await ruleGroups()));
  await run(promtool(), ["check", "rules", rules]);
  // One process for all; it names the file of each that fails.
  const files = await Promise.all(SITUATIONS.map((situation, number) => {
    const name = situation.name.replaceAll(/\W+/g, "-");
    return write(`${number}-${name}.yaml`, promtoolTest(situation));
  }));
  await run(promtool(), ["test", "rules", ...files]);
  await Deno.remove(directory, { recursive: true });
});

Deno.test("each alert has a situation in which it fires, and its text only labels that it has then", () => {
  for (const { alert, annotations } of alerts) {
    const labels = SITUATIONS.flatMap(({ fires }) => fires?.[alert] ?? [])[0];
    assert.ok(labels !== undefined, alert);
    const used = Object.values(annotations).flatMap((text) =>
      [...text.matchAll(/\$labels\.(\w+)/g)].map(([, label]) => label)
    );
    const has = [...labels.matchAll(/(\w+)="/g)].map(([, label]) => label);
    for (const label of used) {
      assert.ok(has.includes(label), `${alert}: ${label}`);
    }
  }
});

Deno.test("each alert has a situation in which it stays silent, though what it looks at is not as usual", () => {
  for (const { alert, expr } of alerts) {
    const misses = SITUATIONS.filter(({ nearly }) => nearly?.includes(alert));
    assert.ok(misses.length > 0, `${alert} has no near miss`);
    const selectors = selectorsOf(expr);
    for (const { name, series, fires = {} } of misses) {
      assert.ok(!(alert in fires), `${alert} fires when ${name}`);
      const changed = Object.entries(series)
        .flatMap(([text, values]) => values === HEALTHY[text] ? [] : [text]);
      const isSeen = changed.some((text) =>
        selectors.some((selector) => selects(selector, text))
      );
      assert.ok(isSeen, `${alert} does not look at what differs when ${name}`);
    }
  }
  const names = alerts.map(({ alert }) => alert);
  for (const alert of SITUATIONS.flatMap(({ nearly = [] }) => nearly)) {
    assert.ok(names.includes(alert), alert);
  }
});

const RUNBOOKS = new URL("../../docs/runbooks/", import.meta.url);
const PARTS = ["Symptom", "What it means", "Look here", "Do this"];

Deno.test("each alert has a runbook with four parts, and each runbook an alert", async () => {
  const index = await Deno.readTextFile(new URL("README.md", RUNBOOKS));
  for (const { alert, annotations } of alerts) {
    const page = `${alert}.md`;
    assert.equal(
      annotations["runbook_url"],
      `https://coil.example/runbooks/${page}`,
    );
    assert.ok(index.includes(`[${alert}](${page})`), alert);
    const text = await Deno.readTextFile(new URL(page, RUNBOOKS));
    const parts = [...text.matchAll(/^## (.*)\n\n\S/gm)].map(([, part]) =>
      part
    );
    assert.deepEqual([text.split("\n")[0], ...parts], [`# ${alert}`, ...PARTS]);
  }
  const pages = await Array.fromAsync(Deno.readDir(RUNBOOKS));
  const names = [...alerts.map(({ alert }) => `${alert}.md`), "README.md"];
  assert.deepEqual(pages.map(({ name }) => name).sort(), names.sort());
});

async function runbook(alert: string): Promise<string> {
  return await Deno.readTextFile(new URL(`${alert}.md`, RUNBOOKS));
}

Deno.test("the runbook of leases says what each is for", async () => {
  const text = await runbook("CoilControllerLeaderless");
  for (const lease of CONTROLLER_LEASES) {
    assert.ok(text.includes(`\`${lease}\``), lease);
  }
});

Deno.test("documents have each reason of a VPCNode's condition Ready", async () => {
  const source = new URL(
    "../../roles/coild/vpc_report/status.ts",
    import.meta.url,
  );
  const text = await Deno.readTextFile(source);
  const ready = /^function ready\([^]+?^}$/m.exec(text)?.[0] ?? "";
  const drafts = ready
    .matchAll(/\bdraft\(\s*"(?:True|False)",\s*"(\w+)"/g);
  const reasons = new Set([...drafts].map(([, reason = ""]) => reason));
  assert.ok(reasons.size > 5, [...reasons].join());
  const runbooks = await runbook("CoilVpcNoAddress") +
    await runbook("CoilNodeServesNoPods");
  const guide = await Deno.readTextFile(new URL("../vpc.md", RUNBOOKS));
  for (const reason of reasons) {
    for (const text of [runbooks, guide]) {
      assert.ok(text.includes(`\`${reason}\``), reason);
    }
  }
});

Deno.test("alerts on EC2's refusals know each code that lib/aws knows", async () => {
  const source = new URL("../../lib/aws/base/errors.ts", import.meta.url);
  const text = await Deno.readTextFile(source);
  for (
    const [name, alert] of [
      ["THROTTLED", "CoilVpcThrottled"],
      ["DENIED", "CoilVpcPermissionMissing"],
    ] as const
  ) {
    const [, set = ""] =
      new RegExp(`const ${name}\\b[^=]*= new Set\\(\\[([^\\]]*)`).exec(text) ??
        [];
    const codes = [...set.matchAll(/"(\w+)"/g)].map(([, code = ""]) => code);
    assert.ok(codes.length > 2, name);
    const { expr = "" } = alerts.find((each) => each.alert === alert) ?? {};
    const [selector] = selectorsOf(expr);
    assert.ok(selector !== undefined);
    for (const code of codes) {
      const series = `coil_vpc_api_requests_total{result="${code}"}`;
      assert.ok(selects(selector, series), `${alert}: ${code}`);
    }
  }
});
