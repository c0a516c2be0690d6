import assert from "node:assert/strict";
import { scrub, withoutSecrets } from "./clean.ts";

Deno.test("withoutSecrets() leaves out environments, wherever they are", () => {
  const container = {
    name: "egress",
    args: ["--port=1", "--api-token=abc", "--password", "hunter2", "--secret"],
    command: ["token", "get", "-c", "login --token abc"],
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
          "example.com/token": "abc",
        },
      },
      spec: { template: { spec: { containers: [container] } } },
      nothing: null,
    }),
    {
      metadata: {
        annotations: { kept: "x", "example.com/token": "[removed]" },
      },
      spec: {
        template: {
          spec: {
            containers: [{
              name: "egress",
              args: [
                ...["--port=1", "--api-token=[removed]"],
                ...["--password", "[removed]", "--secret"],
              ],
              command: ["token", "get", "-c", "login --token [removed]"],
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
    ["password:'hunter2'", "password:'[removed]'"],
    ["client-key-data: LS0tLS1CRUdJTg==", "client-key-data: [removed]"],
    [
      "-----BEGIN EC PRIVATE KEY-----\nMHcC\n-----END EC PRIVATE KEY-----",
      "-----BEGIN EC PRIVATE KEY-----[removed]-----END EC PRIVATE KEY-----",
    ],
    [
      "Get https://admin:hunter2@example.com:443/x?to=a@b",
      "Get https://admin:[removed]@example.com:443/x?to=a@b",
    ],
    [
      "to http://[fd00::1]:8080/a@b and unix:///run/x",
      "to http://[fd00::1]:8080/a@b and unix:///run/x",
    ],
    ["authorization: Basic YTpi", "authorization: Basic [removed]"],
    ["a basic rule", "a basic rule"],
    [
      String.raw`{"msg":"got {\"password\":\"hunter2\"} of x","n":1}`,
      String.raw`{"msg":"got {\"password\":\"[removed]\"} of x","n":1}`,
    ],
    ['{"token":"a\\"b","n":1}', '{"token":"[removed]","n":1}'],
    ['password: "correct horse, x" y', 'password: "[removed]" y'],
    ["password=2026-Spring! y", "password=[removed] y"],
    ["secret=12345678-90ab, token: 1.a", "secret=[removed], token: [removed]"],
    ['{"token":"","token":null,"n":1}', '{"token":"","token":null,"n":1}'],
    ["map[Authorization:[Basic YTpi]]", "map[Authorization:[Basic [removed]]]"],
    [
      '"Authorization":["Basic YTpi=="]',
      '"Authorization":["Basic [removed]"]',
    ],
    ["https://u:p@ss@host/a", "https://u:[removed]@host/a"],
    [
      "https://ghp_0123456789abcdefghij@host/a",
      "https://[removed]@host/a",
    ],
    ["https://admin@host/a", "https://admin@host/a"],
    [
      "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nMHcC\n-----END RSA",
      "-----BEGIN RSA PRIVATE KEY-----[removed]-----END RSA",
    ],
    ["-----BEGIN PRIVATE KEY-----MHcC", "-----BEGIN PRIVATE KEY-----[removed]"],
    ['--password "correct horse" --port 1', '--password "[removed]" --port 1'],
    ["--password hunter2 --port 1", "--password [removed] --port 1"],
    ["--token --quiet", "--token --quiet"],
    ["a service-token that expired", "a service-token that expired"],
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

Deno.test("scrub() takes a log that is made to take long for what it is", () => {
  for (
    const text of [
      " ".repeat(1 << 20),
      "token".repeat(1 << 18),
      "-eyJ".repeat(1 << 18),
      "-----BEGIN PRIVATE KEY-----[removed]".repeat(1 << 15),
      `${"a".repeat(1 << 20)}://`,
      "://a:".repeat(1 << 18),
      "--token -".repeat(1 << 17),
    ]
  ) {
    assert.equal(scrub(text), text);
  }
  const quotes = `token=${'"'.repeat(1 << 20)}`;
  assert.equal(scrub(quotes), quotes);
  assert.equal(scrub('token="x'.repeat(1 << 17)).includes("x"), false);
});
