// PromQL: the names of the metrics that an expression asks for, and its value.

import { stringify } from "yaml";
import { promtool } from "../lab/debian_programs.ts";

const KEYWORDS = new Set([
  ..."and or unless by without on ignoring group_left group_right".split(" "),
  ..."bool offset inf nan".split(" "),
]);

/** A name, then perhaps the parenthesis of a function. */
const NAME = /([a-zA-Z_:][a-zA-Z0-9_:]*)\s*(\()?/g;
const STRING = /"[^"]*"/g;
const MATCHER = /\{[^}]*\}/g;
const RANGE = /\[[^\]]*\]/g;
const LABELS = /\b(by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)/g;

/** Lists the names of the metrics of an expression. */
export function metricsOf(expression: string): string[] {
  // A blank in each place, so that nothing grows together.
  const text = [STRING, MATCHER, RANGE, LABELS].reduce(
    (rest, pattern) => rest.replace(pattern, " "),
    expression,
  );
  return [...text.matchAll(NAME)].flatMap(([, name = "", parenthesis]) =>
    parenthesis !== undefined || KEYWORDS.has(name) ? [] : [name]
  );
}

/** What an expression asks for: a metric, and what its labels must be. */
export interface Selector {
  readonly name: string;
  readonly matchers: readonly {
    readonly label: string;
    readonly operator: string;
    readonly value: string;
  }[];
}

/** Lists the selectors of an expression. */
export function selectorsOf(expression: string): Selector[] {
  const names = new Set(metricsOf(expression));
  const all = expression.matchAll(/([a-zA-Z_:][\w:]*)(?:\{([^}]*)\})?/g);
  return [...all].flatMap(([, name = "", text = ""]) => {
    if (!names.has(name)) return [];
    const matchers = [...text.matchAll(/(\w+)(=~|!~|!=|=)"([^"]*)"/g)].map(
      ([, label = "", operator = "", value = ""]) => ({
        label,
        operator,
        value,
      }),
    );
    return [{ name, matchers }];
  });
}

/** Whether a selector takes a series, written as in a scrape. */
export function selects({ name, matchers }: Selector, series: string): boolean {
  const [metric, text = ""] = series.split("{");
  const labels = new Map(
    [...text.matchAll(LABEL)].map(([, label, value]) => [label, value]),
  );
  return metric === name && matchers.every(({ label, operator, value }) => {
    const own = labels.get(label) ?? "";
    const isEqual = operator.endsWith("~")
      ? new RegExp(`^(?:${value})$`).test(own)
      : own === value;
    return operator.startsWith("!") ? !isEqual : isEqual;
  });
}

/**
 * The expression without its thresholds and wanted values: it has a result, with the labels of the alert's, as long as
 * its metrics have the labels by which it chooses and joins them.
 */
export function withoutThresholds(expression: string): string {
  return expression.split(/(\{[^}]*\})/).map((part) =>
    part.startsWith("{")
      ? part.replaceAll(/(\w+)\s*(?:=~|!~|!=|=)\s*"[^"]*"/g, '$1!=""')
      : part.replaceAll(/\babsent\(/g, "(").replaceAll(/\bunless\b/g, "and")
        .replaceAll(/==|!=|>=|<=|>|</g, "$& bool")
  ).join("");
}

/** The names of the labels of each sample of a result, as promtool prints it. */
export function labelsOf(answer: string): string[][] {
  const [, got = ""] = answer.split(/^ *got: */m);
  return [...got.matchAll(MATCHER)].map(([labels]) =>
    [...labels.matchAll(LABEL)].map(([, name = ""]) => name)
  );
}

const LABEL = /(\w+)="((?:[^"\\]|\\.)*)"/g;

/** The text of a scrape as constant series of promtool's tests, with the labels that Prometheus gives their target. */
export function scrapedSeries(
  scrape: string,
  target: Readonly<Record<string, string>>,
  options: { readonly honorLabels?: boolean } = {},
): readonly { readonly series: string; readonly values: string }[] {
  return [...scrape.matchAll(/^(\w+)(?:\{(.*)\})? (\S+)$/gm)].flatMap((
    [, name, own = "", value],
  ) => {
    if (!Number.isFinite(Number(value))) return [];
    const labels: Record<string, string> = { ...target };
    for (const [, label = "", text = ""] of own.matchAll(LABEL)) {
      const isTaken = label in target && !options.honorLabels;
      labels[isTaken ? `exported_${label}` : label] = text;
    }
    const pairs = Object.entries(labels).map(([label, text]) =>
      `${label}="${text}"`
    );
    return [{
      series: `${name}{${pairs.join(",")}}`,
      values: `${Number(value)}+0x15`,
    }];
  });
}

/** Evaluates expressions after a quarter of an hour; what promtool says of each, empty for one without a result. */
export async function evaluate(
  series: ReturnType<typeof scrapedSeries>,
  expressions: readonly string[],
): Promise<ReadonlyMap<string, string>> {
  const file = await Deno.makeTempFile({ suffix: ".yaml" });
  const of = (expr: string) => ({ expr, eval_time: "15m", exp_samples: [] });
  const promql_expr_test = expressions.map(of);
  await Deno.writeTextFile(
    file,
    stringify({
      evaluation_interval: "1m",
      tests: [{ interval: "1m", input_series: series, promql_expr_test }],
    }),
  );
  const args = ["test", "rules", file];
  const { stdout, stderr } = await new Deno.Command(promtool(), { args })
    .output();
  await Deno.remove(file);
  const decoder = new TextDecoder();
  const answers = (decoder.decode(stdout) + decoder.decode(stderr))
    .split(/^ {4}expr: /m);
  return new Map(expressions.map((expr) => {
    const quoted = JSON.stringify(expr);
    return [expr, answers.find((text) => text.startsWith(quoted)) ?? ""];
  }));
}
