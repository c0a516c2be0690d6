// As much of the Prometheus operator's definitions as deploy/monitoring uses,
// by its API reference for monitoring.coreos.com/v1. What is not here is refused.

type Schema = Record<string, unknown>;

const text: Schema = { type: "string" };
const list = (items: Schema): Schema => ({ type: "array", items });
const fields = (
  properties: Record<string, Schema>,
  required: readonly string[] = [],
): Schema => ({ type: "object", properties, required: [...required] });
const texts: Schema = { type: "object", additionalProperties: text };
const duration: Schema = { type: "string", pattern: "^([0-9]+(ms|s|m|h))+$" };
const selector: Schema = fields({
  matchLabels: texts,
  matchExpressions: list(
    fields({ key: text, operator: text, values: list(text) }, [
      "key",
      "operator",
    ]),
  ),
});
const endpoint: Schema = fields({
  port: text,
  interval: duration,
  honorLabels: { type: "boolean" },
  relabelings: list(fields({ sourceLabels: list(text), targetLabel: text })),
});

const rule: Schema = fields({
  alert: text,
  expr: { "x-kubernetes-int-or-string": true },
  for: duration,
  labels: texts,
  annotations: texts,
}, ["expr"]);

function definition(kind: string, spec: Schema): unknown {
  const singular = kind.toLowerCase();
  const plural = `${singular}s`;
  const group = "monitoring.coreos.com";
  return {
    apiVersion: "apiextensions.k8s.io/v1",
    kind: "CustomResourceDefinition",
    metadata: { name: `${plural}.${group}` },
    spec: {
      group,
      names: { kind, plural, singular },
      scope: "Namespaced",
      versions: [{
        name: "v1",
        served: true,
        storage: true,
        schema: { openAPIV3Schema: fields({ spec }, ["spec"]) },
      }],
    },
  };
}

/** The definitions. */
export const MONITORING_CRDS: readonly unknown[] = [
  definition(
    "ServiceMonitor",
    fields({ jobLabel: text, selector, endpoints: list(endpoint) }, [
      "selector",
      "endpoints",
    ]),
  ),
  definition(
    "PodMonitor",
    fields({
      jobLabel: text,
      selector,
      namespaceSelector: fields({ any: { type: "boolean" } }),
      podMetricsEndpoints: list(endpoint),
    }, ["selector"]),
  ),
  definition(
    "PrometheusRule",
    fields({
      groups: list(fields({ name: text, rules: list(rule) }, ["name"])),
    }),
  ),
];
