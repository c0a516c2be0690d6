import assert from "node:assert/strict";
import { DEPLOYMENTS, KubeClient } from "../../../lib/kube/mod.ts";
import { FakeTransport } from "../../../lib/kube/testing.ts";
import { hasFormerManager, takeOver } from "./takeover.ts";

interface Entry {
  readonly manager: string;
  readonly operation: "Update" | "Apply";
  readonly subresource?: string;
  readonly fieldsV1?: Readonly<Record<string, unknown>>;
}

const OURS: Entry = {
  manager: "coil-controller",
  operation: "Apply",
  fieldsV1: { "f:spec": { "f:replicas": {} } },
};
const FORMER: Entry = {
  manager: "coil-egress-controller",
  operation: "Update",
  fieldsV1: { "f:spec": { "f:template": {} }, "f:metadata": {} },
};
const FORMER_OF_OUR_NAME: Entry = { ...FORMER, manager: "coil-controller" };
const KUBELET: Entry = { manager: "kubelet", operation: "Update" };

const CASES: readonly (readonly [string, boolean, ...Entry[]])[] = [
  ["nobody", false],
  ["ours", false, OURS],
  ["another program", false, KUBELET],
  ["upstream's controller of egresses", true, FORMER],
  ["upstream's one controller", true, FORMER_OF_OUR_NAME],
  // So the API server books what admission webhooks do to an applied object.
  ["an update under our name beside what we apply", false, OURS, {
    ...FORMER_OF_OUR_NAME,
  }],
  ["both", true, OURS, FORMER],
  ["upstream's status alone", false, { ...FORMER, subresource: "status" }],
  ["an apply under upstream's name", false, { ...FORMER, operation: "Apply" }],
  ["our status beside upstream's object", true, FORMER_OF_OUR_NAME, {
    ...OURS,
    subresource: "status",
  }],
];

for (const [what, expected, ...managedFields] of CASES) {
  Deno.test(`hasFormerManager() of an object with fields of ${what}`, () => {
    assert.equal(hasFormerManager({ metadata: { managedFields } }), expected);
  });
}

async function takenOver(...managedFields: readonly Entry[]) {
  const metadata = { name: "nat", resourceVersion: "7", managedFields };
  const transport = new FakeTransport(() => ({ body: { metadata } }));
  const { signal } = new AbortController();
  const target = { namespace: "internet", name: "nat", signal };
  await takeOver(new KubeClient(transport), DEPLOYMENTS, target);
  return transport.requests.slice(1).map(({ body }) => JSON.parse(body ?? ""));
}

Deno.test("takeOver() makes upstream's fields ours, and leaves others'", async () => {
  const unitedFields = {
    "f:spec": { "f:replicas": {}, "f:template": {} },
    "f:metadata": {},
  };
  assert.deepEqual(await takenOver(KUBELET, FORMER, OURS), [[
    { op: "test", path: "/metadata/resourceVersion", value: "7" },
    {
      op: "replace",
      path: "/metadata/managedFields",
      value: [KUBELET, { ...OURS, fieldsV1: unitedFields }],
    },
  ]]);
  const [[, { value }]] = await takenOver(FORMER);
  assert.deepEqual(value, [
    { ...FORMER, manager: "coil-controller", operation: "Apply" },
  ]);
});

Deno.test("takeOver() writes nothing when nothing is upstream's", async () => {
  assert.deepEqual(await takenOver(OURS, KUBELET), []);
});
