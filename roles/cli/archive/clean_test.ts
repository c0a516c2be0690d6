import assert from "node:assert/strict";
import { scrub, withoutSecrets } from "./clean.ts";

Deno.test("withoutSecrets() leaves out environments, wherever they are", () => {
  const container = {
    name: "egress",
    args: ["--port=1", "--api-token=abc"],
    env: [{ name: "PASSWORD", value: "hunter2" }],
    envFrom: [{ secretRef: { name: "s" } }],
    livenessProbe: { httpGet: { httpHeaders: [{ value: "Basic x" }] } },
  };
  assert.deepEqual(
    withoutSecrets({
      metadata: {
        managedFields: [{}],
        annotations: {
          "kubectl.kubernetes.io/last-applied-configuration": "env",
          kept: "x",
        },
      },
      spec: { template: { spec: { containers: [container] } } },
      nothing: null,
    }),
    {
      metadata: { annotations: { kept: "x" } },
      spec: {
        template: {
          spec: {
            containers: [{
              name: "egress",
              args: ["--port=1", "--api-token=[removed]"],
              livenessProbe: { httpGet: {} },
            }],
          },
        },
      },
      nothing: null,
    },
  );
});

for (
  const [text, shown] of [
    ["Authorization: Bearer abc.def-1==", "Authorization: Bearer [removed]"],
    ["got eyJhbGciOi.eyJzdWIi.c2ln in", "got [removed] in"],
    ['{"token":"s3cr3t","pod":"x"}', '{"token":"[removed]","pod":"x"}'],
    ["client_secret = abc, next", "client_secret = [removed], next"],
    ["key AKIAABCDEFGHIJKLMNOP", "key [removed]"],
    [
      '{"automountServiceAccountToken":false}',
      '{"automountServiceAccountToken":false}',
    ],
    ["tokens: 5 of 10.0.0.1", "tokens: 5 of 10.0.0.1"],
    ["kube_token_total 12", "kube_token_total 12"],
  ] as const
) {
  Deno.test(`scrub() of "${text}"`, () => assert.equal(scrub(text), shown));
}
