import assert from "node:assert/strict";
import { CoildLab } from "../apiserver/coild_lab.ts";
import { eventually } from "../lab/mod.ts";

const DEPLOY = new URL("../../deploy/metrics-auth", import.meta.url).pathname;
const READER = { namespace: "monitoring", name: "prometheus" };
const STRANGER = { namespace: "monitoring", name: "default" };

Deno.test("coild with --metrics-auth tells its metrics to nobody who may not read them", async () => {
  await using lab = await CoildLab.start({ name: "metricsauth" });
  const { plane } = lab;
  await plane.kubectl("apply", "-k", DEPLOY);
  await lab.createNamespace(READER.namespace);
  const account = { apiVersion: "v1", kind: "ServiceAccount" };
  await plane.apply(
    { ...account, metadata: READER },
    { ...account, metadata: STRANGER },
    {
      apiVersion: "rbac.authorization.k8s.io/v1",
      kind: "ClusterRoleBinding",
      metadata: { name: "prometheus" },
      roleRef: {
        apiGroup: "rbac.authorization.k8s.io",
        kind: "ClusterRole",
        name: "coil-metrics-reader",
      },
      subjects: [{ kind: "ServiceAccount", ...READER }],
    },
  );
  const [reader, stranger] = await Promise.all(
    [READER, STRANGER].map((one) => plane.serviceAccountToken(one)),
  );
  await using coild = await lab.startCoild(lab.node(), ["--metrics-auth"]);
  const ask = (...headers: string[]) =>
    eventually("an answer that coild had the time for", async () => {
      const text = await coild.node.run(
        ...["curl", "-s", "-m60", "-w", "\\n%{http_code}"],
        ...headers.flatMap((header) => ["-H", header]),
        "http://127.0.0.1:9384/metrics",
      );
      return !/\n5\d\d$/.test(text) && text;
    });
  assert.match(await ask(), /\n401$/);
  assert.match(await ask("Authorization: Bearer a.b.c"), /\n401$/);
  assert.match(await ask(`Authorization: Bearer ${stranger}`), /\n403$/);
  await eventually("the reader to be served", async () => {
    const text = await ask(`Authorization: Bearer ${reader}`);
    return /^coil_coild_[\s\S]*\n200$/m.test(text);
  });
  assert.match(await ask(), /\n401$/);
});
