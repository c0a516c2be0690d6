// The alerts of deploy/monitoring.
import { parse } from "yaml";
import { DEPLOY } from "./deploy_render.ts";

/** An alert, as far as tests look. */
export interface AlertRule {
  readonly alert: string;
  readonly expr: string;
  readonly annotations: Readonly<Record<string, string>>;
  readonly labels: Readonly<Record<string, string>>;
}

/** What Prometheus itself reads: groups without the Kubernetes object around them. */
export interface RuleGroups {
  readonly groups: readonly {
    readonly name: string;
    readonly rules: readonly AlertRule[];
  }[];
}

/** Reads the rules. */
export async function ruleGroups(): Promise<RuleGroups> {
  const text = await Deno.readTextFile(`${DEPLOY}monitoring/rules.yaml`);
  return (parse(text) as { spec: RuleGroups }).spec;
}

/** Reads the alerts of all groups. */
export async function alertRules(): Promise<readonly AlertRule[]> {
  return (await ruleGroups()).groups.flatMap(({ rules }) => rules);
}
